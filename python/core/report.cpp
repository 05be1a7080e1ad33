#include "report.h"

#include <array>
#include <map>
#include <string>
#include <vector>

#include "analyze/comparison.h"
#include "analyze/process/process_view.h"
#include "analyze/summary.h"
#include "analyze/table.h"
#include "analyze/verdict/trust.h"
#include "analyze/views/keys.h"
#include "analyze/views/propagation_view.h"
#include "analyze/views/strangest.h"
#include "analyze/views/trials_view.h"
#include "campaign/commands/merge.h"
#include "campaign/folder/folder.h"
#include "campaign/journal/journal.h"
#include "core/error.h"
#include "core/file.h"

namespace bitrift::python {
namespace {

using record::Json;

constexpr std::size_t kStrangest = 10;  // of a kind
constexpr std::size_t kAllPairs =
    5;  // arms of which all pairs are compared; of more, the first with each other
constexpr std::size_t kFaultsOfATrial = 3;  // that are written out

struct Rows {
  record::CampaignSpec spec;
  std::vector<record::TrialRecord> rows;
  std::vector<record::Round> rounds;
};

Json runs_of(const Rows& campaign) {
  Json runs = Json::object();
  for (const record::Arm& arm : campaign.spec.arms) runs[arm.name] = Json::object();
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
  value["fault"] = analyze::fault_text(row, kFaultsOfATrial);
  value["detail"] = row.failure ? row.failure->detail : row.result ? row.result->detail : "";
  value["landed"] = row.landed;
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
  for (const record::Arm& arm : campaign.spec.arms)
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

void add_judged(Json& report, const Rows& campaign, const analyze::Trust& trust) {
  const auto summary = [&](const std::vector<std::string>& by) {
    return analyze::to_json(analyze::summarize(campaign.rows, campaign.spec, trust, by, campaign.rounds));
  };
  report["by_arm"] = summary({"strategy"});
  report["summary"] = summary(analyze::usual_dimensions(campaign.spec));
  report["comparisons"] = comparisons_of(campaign, trust);
  if (campaign.spec.propagation) {
    report["propagation"] = or_refusal(
        [&] { return analyze::to_json(analyze::propagation_of(campaign.rows, campaign.spec, false)); });
  }
  if (campaign.spec.strata.process) {
    report["process"] =
        analyze::to_json(analyze::process_view(campaign.rows, campaign.spec, trust, campaign.rounds));
  }
  const auto chosen =
      analyze::strangest(analyze::trials_view(campaign.rows, trust), trust.judging, kStrangest);
  report["strangest"] = {{"worst", faults_json(chosen.worst)},
                         {"rare", faults_json(chosen.rare)},
                         {"unharmed", faults_json(chosen.unharmed)}};
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
                 {"problems", Json::array()},
                 {"checks", Json::array()}};
  constexpr std::array judged = {"refused",     "by_arm",  "summary",  "comparisons",
                                 "propagation", "process", "strangest"};
  for (const char* key : judged) report[key] = nullptr;
  const Json refusal = or_refusal([&]() -> Json {
    const analyze::Trust trust = analyze::trust_of(campaign.rows, analyze::judging_of(campaign.spec));
    report["problems"] = trust.problems;
    analyze::TrialFilter canaries;
    canaries.kinds = {record::TrialKind::canary};
    for (const analyze::TrialLine& line : analyze::trials_view(campaign.rows, trust, canaries))
      report["checks"].push_back(line_json(line));
    if (trust.problems.empty()) add_judged(report, campaign, trust);
    return Json::object();
  });
  if (refusal.contains("refused")) {
    for (const char* key : judged) report[key] = nullptr;
    report["refused"] = refusal.at("refused");
  }
  return report;
}

}  // namespace bitrift::python
