#include "report.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyze/across/comparison.h"
#include "analyze/guards/detectors_view.h"
#include "analyze/observations.h"
#include "analyze/process/process_view.h"
#include "analyze/summary.h"
#include "analyze/table.h"
#include "analyze/verdict/canaries.h"
#include "analyze/verdict/trust.h"
#include "analyze/views/dimension.h"
#include "analyze/views/propagation_view.h"
#include "analyze/views/strangest.h"
#include "analyze/views/trials_view.h"
#include "campaign/commands/merge.h"
#include "campaign/folder/folder.h"
#include "campaign/folder/resumed_steps.h"
#include "campaign/journal/journal.h"
#include "campaign/plan/fault_sentences.h"
#include "campaign/plan/plan.h"
#include "core/error.h"
#include "core/file.h"
#include "core/number/number_format.h"
#include "design/extension.h"
#include "design/kind/run/process_strata.h"

namespace bitrift::python {
namespace {

using record::Json;

constexpr std::size_t kStrangest = 10;  // of a kind
constexpr std::size_t kAllPairs =
    5;  // arms of which all pairs are compared; of more, the first with each other
constexpr std::size_t kFaultsOfATrial = 3;  // that are written out

struct Rows {
  design::CampaignSpec spec;
  std::vector<record::TrialRecord> rows;
  std::vector<record::Round> rounds;
};

Json runs_of(const Rows& campaign) {
  Json runs = Json::object();
  for (const design::Arm& arm : campaign.spec.arms) runs[arm.name] = Json::object();
  for (const record::TrialRecord& row : campaign.rows) {
    Json& count = runs[row.id.arm][name_of(row.kind)];
    count = count.is_null() ? 1 : count.get<std::uint64_t>() + 1;
  }
  return runs;
}

Json times_of(const Rows& campaign) {
  std::string first;
  std::string last;
  double seconds = 0;
  for (const record::TrialRecord& row : campaign.rows) {
    seconds += row.seconds;
    if (row.started.empty()) continue;
    if (first.empty() || row.started < first) first = row.started;
    if (row.started > last) last = row.started;
  }
  return {{"first", first}, {"last", last}, {"seconds", seconds}};
}

Json line_json(const analyze::TrialLine& line) {
  const record::TrialRecord& row = *line.row;
  Json value = analyze::to_json(line);
  value["fault"] = record::described(row.faults, kFaultsOfATrial);
  value["detail"] = row.failure ? row.failure->detail : row.result ? row.result->detail : "";
  value["change"] = record::number_to_json(analyze::largest_change(row));
  return value;
}

Json faults_json(const std::vector<analyze::StrangeFault>& faults) {
  Json list = Json::array();
  for (const analyze::StrangeFault& fault : faults) {
    list.push_back(line_json(fault.line));
    list.back()["arms"] = fault.arms;
  }
  return list;
}

/// The work's result, or {"refused": text} where the rows do not allow it.
template <typename Work>
Json or_refusal(const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal || error.code() == ErrorCode::io) throw;
    return {{"refused", error.what()}};
  }
}

/// A comparison for each base that has several arms.
Json comparisons_of(const Rows& campaign, const analyze::Trust& trust) {
  std::map<std::size_t, std::vector<std::string>> arms;
  for (const design::Arm& arm : campaign.spec.arms)
    arms[campaign.spec.files.at(arm.file).base].push_back(arm.name);
  Json list = Json::array();
  for (const auto& [base, names] : arms) {
    if (names.size() < 2) continue;
    analyze::ComparisonOptions options;
    const bool all = arms.size() == 1 && names.size() <= kAllPairs;
    if (!all) options.arms = names;
    Json one = or_refusal([&] {
      return analyze::to_json(
          analyze::compare_arms(campaign.rows, campaign.spec, trust, campaign.rounds, options));
    });
    one["arms"] = names;
    one["all_pairs"] = all || names.size() == 2;
    list.push_back(std::move(one));
  }
  return list;
}

/// By arm and stratum, how many trials count.
Json counted_of(const Rows& campaign, const analyze::Trust& trust) {
  const analyze::Observations seen = analyze::observe(campaign.rows, campaign.spec, trust);
  Json counted = Json::object();
  for (const design::Arm& arm : campaign.spec.arms) {
    for (const record::Stratum& stratum : campaign.spec.strata->strata()) {
      const auto cell = seen.cells.find({arm.name, stratum.name});
      counted[arm.name][stratum.name] = cell == seen.cells.end() ? 0 : cell->second.trials();
    }
  }
  return counted;
}

bool has_guards(const design::CampaignSpec& spec) {
  return std::ranges::any_of(spec.arms, [&](const design::Arm& arm) { return spec.guards_of(arm).any(); });
}

void add_judged(Json& report, const Rows& campaign, const campaign::Layout& layout,
                const analyze::Trust& trust) {
  const auto summary = [&](const std::vector<std::string>& by) {
    return analyze::to_json(analyze::summarize(campaign.rows, campaign.spec, trust, by, campaign.rounds));
  };
  report["by_arm"] = summary({"strategy"});
  report["summary"] = summary(analyze::usual_dimensions(campaign.spec));
  report["counted"] = counted_of(campaign, trust);
  report["comparisons"] = comparisons_of(campaign, trust);
  if (campaign.spec.propagation) {
    report["propagation"] = or_refusal(
        [&] { return analyze::to_json(analyze::propagation_of(campaign.rows, campaign.spec, false)); });
  }
  if (campaign.spec.strata.as<design::ProcessStrata>() != nullptr) {
    report["process"] =
        analyze::to_json(analyze::process_view(campaign.rows, campaign.spec, trust, campaign.rounds));
  }
  if (has_guards(campaign.spec)) {
    report["guards"] = or_refusal([&] {
      return analyze::to_json(analyze::scoreboard_of(campaign.rows, campaign.spec, trust,
                                                     campaign::resumed_steps(layout, campaign.spec)));
    });
  }
  const auto chosen =
      analyze::strangest(analyze::trials_view(campaign.rows, trust), trust.judging, kStrangest);
  report["strangest"] = {{"worst", faults_json(chosen.worst)},
                         {"rare", faults_json(chosen.rare)},
                         {"unharmed", faults_json(chosen.unharmed)}};
}

/// The controls of the arms that have all of them; the others are left out.
std::map<std::string, analyze::ArmControls> known_controls(const Rows& campaign,
                                                           const analyze::Judging& judging) {
  std::map<std::string, std::vector<record::TrialRecord>> clean;
  for (const record::TrialRecord& row : campaign.rows) {
    if (row.kind != record::TrialKind::trial) clean[row.id.arm].push_back(row);
  }
  std::map<std::string, analyze::ArmControls> known;
  for (const auto& [arm, rows] : clean) {
    static_cast<void>(or_refusal([&, &name = arm, &own = rows]() -> Json {
      known.merge(analyze::controls_of(own, judging));
      return name;
    }));
  }
  return known;
}

/// The canaries of each arm while some have not run: which roles have one follows from the base. Empty where
/// all have run, or where the base is not there.
std::map<std::string, std::vector<std::string>> planned_canaries(const Rows& campaign,
                                                                 const campaign::Layout& layout) {
  const auto last = [&](const design::Arm& arm) {
    return std::ranges::any_of(campaign.rows, [&](const record::TrialRecord& row) {
      return row.kind == record::TrialKind::canary && row.id.arm == arm.name &&
             row.id.stratum == name_of(design::BaseCanary::none);
    });
  };
  std::map<std::string, std::vector<std::string>> planned;
  if (std::ranges::all_of(campaign.spec.arms, last)) return planned;
  static_cast<void>(or_refusal([&]() -> Json {
    const campaign::Bases bases = campaign::open_bases(layout, campaign.spec);
    const campaign::Plan plan(campaign.spec, bases);
    for (const design::Arm& arm : campaign.spec.arms) {
      for (const auto& chain : plan.preparation(arm.name)) {
        for (const campaign::RunKey& key : chain) {
          if (key.kind == record::TrialKind::canary) planned[arm.name].push_back(key.id.stratum);
        }
      }
    }
    return Json();
  }));
  return planned;
}

/// By number format of the tensors that trials altered: the named field of each bit, from bit 0.
Json bit_fields_of(const Rows& campaign) {
  Json fields = Json::object();
  for (const record::TrialRecord& row : campaign.rows) {
    if (row.kind != record::TrialKind::trial) continue;
    for (const record::FaultSite& site : row.faults.bits().sites) {
      if (fields.contains(site.dtype)) continue;
      const auto format = number_format(site.dtype);
      if (!format) continue;
      for (unsigned bit = 0; bit < format->bits(); ++bit)
        fields[site.dtype].push_back(field_of_bit(*format, bit));
    }
  }
  return fields;
}

Json check_json(const analyze::CanaryCheck& check) {
  return {{"arm", check.arm},        {"altered", check.altered}, {"required", check.required},
          {"found", check.found},    {"landing", check.landing}, {"state", name_of(check.state)},
          {"problem", check.problem}};
}

/// Whether every round of the campaign is planned; so are those of earlier versions, which had no rounds.
bool is_decided(const Rows& campaign) {
  const auto stops = std::ranges::count_if(campaign.rounds,
                                           [](const record::Round& round) { return round.stop.has_value(); });
  return campaign.rounds.empty() || static_cast<std::size_t>(stops) == design::generations(campaign.spec);
}

}  // namespace

Json report(const std::filesystem::path& folder) {
  const campaign::Layout layout{folder};
  Rows campaign{campaign::read_stored_campaign(layout).spec, {}, campaign::read_rounds(layout)};
  std::error_code none;
  if (std::filesystem::exists(layout.journal(), none))
    campaign.rows = campaign::read_journal(layout.journal()).effective();
  Json report = {{"runs", runs_of(campaign)},
                 {"times", times_of(campaign)},
                 {"merged", campaign::is_merged(layout)},
                 {"decided", is_decided(campaign)},
                 {"population", campaign::to_json(campaign::fault_sentences(campaign.spec, campaign.rounds,
                                                                            campaign.rows))},
                 {"bit_fields", bit_fields_of(campaign)},
                 {"problems", Json::array()},
                 {"checks", Json::array()}};
  constexpr std::array judged = {"refused",     "by_arm",  "summary", "counted",  "comparisons",
                                 "propagation", "process", "guards",  "strangest"};
  for (const char* key : judged) report[key] = nullptr;
  const analyze::Judging judging = analyze::judging_of(campaign.spec);
  std::optional<analyze::Trust> trust;
  const Json refusal = or_refusal([&]() -> Json {
    trust = analyze::trust_of(campaign.rows, judging);
    if (trust->problems.empty()) add_judged(report, campaign, layout, *trust);
    return Json::object();
  });
  if (refusal.contains("refused")) {
    for (const char* key : judged) report[key] = nullptr;
    report["refused"] = refusal.at("refused");
  }
  std::vector<std::string> arms;
  for (const design::Arm& arm : campaign.spec.arms) arms.push_back(arm.name);
  std::vector<std::string> problems = trust ? trust->problems : std::vector<std::string>{};
  for (const analyze::CanaryCheck& check : analyze::canary_checks(
           campaign.rows, arms, trust ? trust->controls : known_controls(campaign, judging), judging,
           planned_canaries(campaign, layout))) {
    report["checks"].push_back(check_json(check));
    if (check.state == analyze::CanaryState::not_run) std::erase(problems, check.line());
  }
  report["problems"] = problems;
  return report;
}

}  // namespace bitrift::python
