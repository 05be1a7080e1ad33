#include "analyze/summary.h"

#include <numeric>
#include <utility>

#include "analyze/harm.h"
#include "analyze/observations.h"
#include "analyze/order.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;

using Key = std::map<std::string, std::string>;
using Cell = std::pair<std::string, std::string>;  // arm, stratum

/// What makes a line of the table.
struct GroupRows {
  std::string arm;
  std::vector<Member> members;
};

// All lines that there can be, whatever was seen so far: their number must not depend on it.
std::map<Key, GroupRows> lines_of(const record::CampaignSpec& spec, const std::vector<Dimension>& by,
                                  const Order& order, const Observations& seen) {
  const Keys keys(spec, by);
  std::map<Key, GroupRows> lines;
  for (const record::Arm& arm : spec.arms) {
    for (std::size_t at = 0; at < order.names.size(); ++at) {
      GroupRows& line = lines[keys.of(arm.name, order.names[at])];
      line.arm = arm.name;
      const auto cell = seen.cells.find({arm.name, order.names[at]});
      line.members.push_back({cell == seen.cells.end() ? nullptr : &cell->second, at});
    }
  }
  return lines;
}

Effects effects_of_line(const GroupRows& line, const Order& order, double confidence) {
  std::vector<StratumLosses> strata(order.names.size());
  for (StratumLosses& one : strata) one.counted = false;
  for (const Member& member : line.members) {
    StratumLosses& stratum = strata[member.position];
    stratum.bits = member.trials() == 0 ? order.bits[member.position] : member.seen->bits;
    stratum.counted = true;
    if (member.trials() == 0) continue;
    for (const auto& loss : member.seen->accuracy_losses)
      stratum.losses.push_back(loss ? std::optional(100 * *loss) : std::nullopt);
  }
  return effects_of(order.rounds, strata, confidence, order.aim);
}

Group make_group(const Key& key, const GroupRows& line, double confidence, const Order& order) {
  Group group;
  group.key = key;
  for (const OutcomeClass outcome : {OutcomeClass::masked, OutcomeClass::sdc, OutcomeClass::crash}) {
    group.counts[outcome] = 0;
  }
  for (const Member& member : line.members) {
    if (member.seen != nullptr) group.waiting += member.seen->waiting;
    group.bits += member.trials() == 0 ? order.bits[member.position] : member.seen->bits;
    if (member.trials() == 0) {
      group.unseen.push_back(order.names[member.position]);
      continue;
    }
    group.trials += member.trials();
    for (const record::Reason reason : member.seen->outcomes) {
      ++group.counts[record::class_of(reason)];
      ++group.reasons[reason];
    }
    for (const record::Course course : member.seen->courses) {
      if (course != record::Course::none) ++group.courses[course];
    }
  }
  if (group.trials == 0) return group;
  group.share_seen = share_seen(line.members, order);
  group.rates = group_rates(line.members, order, confidence);
  return group;
}

// What the controls say of verdicts, whatever the trials were.
void add_assurance(Summary& summary, const Trust& trust, const record::CampaignSpec& spec) {
  const ArmControls& first = trust.controls.at(spec.arms.front().name);
  summary.evaluations = first.golden.front().evaluations.size();
  summary.horizon_step = first.golden.front().evaluations.at(first.horizon - 1).step;
  if (summary.judging.rule != Rule::conformal) return;
  summary.judging.metrics = first.calibration.value().metrics();
  for (const auto& [arm, controls] : trust.controls)
    summary.assurance[arm] = assurance_of(controls, trust.false_sdc.at(arm), spec.confidence);
}

std::uint64_t planned_by_spec(const record::CampaignSpec& spec, const Order& order) {
  const auto& draws = order.rounds.front().share;
  return spec.arms.size() * std::accumulate(draws.begin(), draws.end(), std::uint64_t{0});
}

}  // namespace

Summary summarize(const std::vector<record::TrialRecord>& rows, const record::CampaignSpec& spec,
                  const std::vector<std::string>& by, const std::vector<record::Round>& rounds,
                  const SummaryOptions& options) {
  return summarize(rows, spec, trust_of(rows, judging_of(spec)), by, rounds, options);
}

Summary summarize(const std::vector<record::TrialRecord>& rows, const record::CampaignSpec& spec,
                  const Trust& trust, const std::vector<std::string>& by,
                  const std::vector<record::Round>& rounds, const SummaryOptions& options) {
  Summary summary;
  summary.campaign = spec.name;
  summary.seed = spec.seed;
  summary.confidence = spec.confidence;
  summary.options = options;
  summary.judging = trust.judging;
  summary.by = dimensions(by, spec);
  summary.rounds = rounds;
  summary.sampling = spec.sampling;
  const Observations seen = observe(rows, spec, trust);
  summary.variations = variations_of(seen, spec);
  add_assurance(summary, trust, spec);
  const Order order = order_of(spec, rounds, seen);
  summary.canaries = seen.canaries;
  for (const record::Round& round : rounds) summary.planned += spec.arms.size() * round.draws();
  if (rounds.empty()) summary.planned = planned_by_spec(spec, order);

  for (const auto& [id, cell] : seen.cells) {
    summary.trials += cell.trials();
    summary.waiting += cell.waiting;
  }
  const auto lines = lines_of(spec, summary.by, order, seen);
  const bool harm = summary.judging.rule == Rule::conformal;
  const auto shown =
      static_cast<double>(lines.size() * (3 + (harm ? 1 : 0) + (options.effects ? effect_points.size() : 0)));
  summary.each_confidence = options.simultaneous ? each_of(shown, spec.confidence) : spec.confidence;
  for (const auto& [key, line] : lines) {
    summary.groups.push_back(make_group(key, line, summary.each_confidence, order));
    Group& group = summary.groups.back();
    if (group.trials == 0) continue;
    if (harm) {
      group.harmful = harmful_interval(line.members, order, trust.controls.at(line.arm),
                                       trust.false_sdc.at(line.arm), summary.each_confidence);
    }
    if (!options.effects) continue;
    // The bands of one line hold together; with `simultaneous` they are among all that do.
    const double together = 1 - static_cast<double>(effect_points.size()) * (1 - summary.each_confidence);
    group.effects = effects_of_line(line, order, options.simultaneous ? together : spec.confidence);
  }
  // Groups all of whose rows wait have nothing to show.
  std::erase_if(summary.groups, [](const Group& group) { return group.trials == 0; });
  return summary;
}

}  // namespace bitrift::analyze
