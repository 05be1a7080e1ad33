#include "analyze/summary.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <utility>

#include "analyze/harm.h"
#include "analyze/lines.h"
#include "analyze/observations.h"
#include "analyze/order.h"
#include "core/text/glob.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;

Effects effects_of_line(const Line& line, const Order& order, double confidence) {
  std::vector<StratumLosses> strata(order.names.size());
  for (StratumLosses& one : strata) one.counted = false;
  for (const Member& member : line.members) {
    StratumLosses& stratum = strata[member.position];
    stratum.bits = member.bits(order);
    stratum.counted = true;
    stratum.part = member.part;
    if (member.trials() == 0) continue;
    for (const auto& loss : member.seen->accuracy_losses)
      stratum.losses.push_back(loss ? std::optional(100 * *loss) : std::nullopt);
  }
  return effects_of(order.rounds, strata, confidence, order.aim);
}

Group make_group(const Line& line, double confidence, const Order& order) {
  Group group;
  group.key = line.key;
  for (const OutcomeClass outcome : {OutcomeClass::masked, OutcomeClass::sdc, OutcomeClass::crash}) {
    group.counts[outcome] = 0;
  }
  group.strata = line.members.size();
  for (const Member& member : line.members) {
    if (member.seen != nullptr) group.waiting += member.seen->waiting;
    group.bits += member.bits(order);
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

// What the controls say about verdicts, regardless of the trials.
void add_assurance(Summary& summary, const Trust& trust, const design::CampaignSpec& spec) {
  const ArmControls& first = trust.controls.at(spec.arms.front().name);
  summary.evaluations = first.golden.front().evaluations.size();
  summary.horizon_step = first.golden.front().evaluations.at(first.horizon - 1).step;
  summary.judging.metrics = first.calibration.value().metrics();
  for (const auto& [arm, controls] : trust.controls)
    summary.assurance[arm] = assurance_of(controls, trust.false_sdc.at(arm), spec.confidence);
}

// What is known about the bases, and about the tensors and roles that the strata choose.
std::vector<std::string> unread_of(const design::CampaignSpec& spec) {
  std::set<std::string> names;
  for (const record::BaseFile& file : spec.files) {
    for (const record::UnreadTensor& one : file.unread.value_or(std::vector<record::UnreadTensor>())) {
      if (spec.strata->asks_for(one.tensor, one.role)) names.insert(one.tensor);
    }
  }
  return {names.begin(), names.end()};
}

void count_trials(Summary& summary, const Observations& seen) {
  for (const auto& [id, cell] : seen.cells) {
    summary.trials += cell.trials();
    summary.waiting += cell.waiting;
    // A recovery should leave no trace, and slow messages leave none.
    if (summary.judging.strata->leaves_traces() && cell.trials() >= least_all_bitwise &&
        std::count(cell.outcomes.begin(), cell.outcomes.end(), record::Reason::bitwise) ==
            std::ssize(cell.outcomes)) {
      summary.all_bitwise.push_back({id.first, id.second, cell.trials()});
    }
  }
}

std::uint64_t planned_by_spec(const design::CampaignSpec& spec, const Order& order) {
  const auto& draws = order.rounds.front().share;
  return spec.arms.size() * std::accumulate(draws.begin(), draws.end(), std::uint64_t{0});
}

// Each spec of a campaign ends with a stop: draws after a stop were added by the next spec.
bool drawn_by_extension(const std::vector<record::Round>& rounds) {
  const auto stop = std::find_if(rounds.begin(), rounds.end(), [](const auto& one) { return one.stop; });
  return std::any_of(stop, rounds.end(), [](const record::Round& round) { return round.draws() > 0; });
}

}  // namespace

void sort_worst_first(Summary& summary, RateOf what) {
  const auto worth = [&](const Group& group) {
    if (group.rates.empty()) return std::pair(-1.0, 0.0);
    const Rate rate = rate_of(group.rates, what);
    return std::pair(rate.interval(summary.options.interval).low, rate.estimate);
  };
  std::stable_sort(summary.groups.begin(), summary.groups.end(),
                   [&](const Group& a, const Group& b) { return worth(a) > worth(b); });
}

Summary summarize(const std::vector<record::TrialRecord>& rows, const design::CampaignSpec& spec,
                  const std::vector<std::string>& by, const std::vector<record::Round>& rounds,
                  const SummaryOptions& options) {
  return summarize(rows, spec, trust_of(rows, judging_of(spec)), by, rounds, options);
}

Summary summarize(const std::vector<record::TrialRecord>& rows, const design::CampaignSpec& spec,
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
  summary.extended = drawn_by_extension(rounds);
  summary.sampling = spec.sampling;
  summary.left_out = unread_of(spec);
  if (options.effects) require_accuracy(trust, "losses of test accuracy");
  const Observations seen = observe(rows, spec, trust);
  Where where(options.where, spec);
  // The numbers are those of all strata.
  if (where.empty()) summary.variations = variations_of(seen, spec);
  add_assurance(summary, trust, spec);
  const Order order = order_of(spec, rounds, seen);
  summary.canaries = seen.canaries;
  for (const record::Round& round : rounds) summary.planned += spec.arms.size() * round.draws();
  if (rounds.empty()) summary.planned = planned_by_spec(spec, order);

  count_trials(summary, seen);
  const Lines all_lines(spec, summary.by, where, options.contents, order, seen, rows);
  const std::vector<Line>& lines = all_lines.all();
  const std::vector<Dimension> fewest = dimensions({}, spec);
  Where again(options.where, spec);
  std::optional<Lines> pooled_lines;
  if (options.field_rate) pooled_lines.emplace(spec, fewest, again, options.contents, order, seen, rows);
  const std::size_t rates = lines.size() * (4 + (options.effects ? effect_points.size() : 0)) +
                            (pooled_lines ? 3 * pooled_lines->all().size() : 0);
  const auto shown = static_cast<double>(rates);
  summary.each_confidence = options.simultaneous ? each_of(shown, spec.confidence) : spec.confidence;
  for (const Line& line : lines) {
    summary.groups.push_back(make_group(line, summary.each_confidence, order));
    Group& group = summary.groups.back();
    summary.wanted += group.trials;
    if (group.trials == 0) continue;
    group.harmful =
        harmful_interval(line.members, order, trust.controls.at(line.arm), summary.each_confidence);
    if (!options.simultaneous) group.apart = strata_apart(line.members, order, summary.each_confidence);
    if (!options.effects) continue;
    // The bands of one line hold together; with `simultaneous`, they are part of all intervals that hold
    // together.
    const double together = 1 - static_cast<double>(effect_points.size()) * (1 - summary.each_confidence);
    group.effects = effects_of_line(line, order, options.simultaneous ? together : spec.confidence);
  }
  if (pooled_lines) {
    for (const Line& line : pooled_lines->all())
      summary.pooled.push_back(make_group(line, summary.each_confidence, order));
  }
  // Groups whose rows all wait have nothing to show.
  const auto waits = [](const Group& group) { return group.trials == 0; };
  if (!options.untried) std::erase_if(summary.groups, waits);
  std::erase_if(summary.pooled, waits);
  return summary;
}

}  // namespace bitrift::analyze
