#include "analyze/summary.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "analyze/keys.h"
#include "analyze/observations.h"
#include "analyze/picks.h"
#include "analyze/stratified.h"
#include "analyze/total_interval.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;

/// A stratum of a group, and where it stands in the rounds.
struct Member {
  const StratumSeen* seen = nullptr;
  std::size_t position = 0;
};

/// Strata and rounds in the order in which draws are bet on.
struct Order {
  std::vector<std::string> names;
  std::vector<PickedRound> rounds;
  double aim = 0;  ///< half-width that totals shall reach; 0: none
  [[nodiscard]] std::size_t position(const std::string& stratum) const {
    const auto found = std::find(names.begin(), names.end(), stratum);
    if (found == names.end()) {
      fail(ErrorCode::conflict, "the journal has rows of stratum '{}', which the campaign does not have",
           stratum);
    }
    return static_cast<std::size_t>(found - names.begin());
  }
};

// Of a spec with one round that is known before it runs.
Order order_of_spec(const record::CampaignSpec& spec, const Observations& seen) {
  Order order;
  PickedRound round;
  round.fixed = true;
  for (const record::Stratum& stratum : record::strata_of(spec.strata)) {
    order.names.push_back(stratum.name);
    round.first.push_back(0);
    round.share.push_back(spec.trials_per_stratum);
  }
  if (spec.exhaustive) {
    for (const auto& [id, cell] : seen.cells) round.share[order.position(id.second)] = cell.bits;
  }
  round.picks = picks_shuffled(spec.seed, 0, round.share);
  order.rounds.push_back(std::move(round));
  return order;
}

Order order_of(const record::CampaignSpec& spec, const std::vector<record::Round>& rounds,
               const Observations& seen) {
  if (rounds.empty() && spec.sampling) {
    fail(ErrorCode::bad_input, "campaign '{}' samples by rounds, and none was given", spec.name);
  }
  if (rounds.empty()) return order_of_spec(spec, seen);
  Order order;
  for (const record::StratumDraws& cell : rounds.front().strata) order.names.push_back(cell.stratum.name);
  order.rounds = picked(rounds);
  if (spec.sampling && spec.sampling->target == "totals") order.aim = spec.sampling->half_width;
  return order;
}

Interval anytime_of(const std::vector<Member>& strata, OutcomeClass outcome, double confidence,
                    const Order& order) {
  std::vector<StratumHits> hits(order.names.size());
  for (StratumHits& one : hits) one.counted = false;
  for (const Member& member : strata) {
    hits[member.position] = {member.seen->bits, member.seen->hits(outcome), true};
  }
  return total_interval(order.rounds, hits, confidence, order.aim);
}

Rate rate_of(const std::vector<Member>& strata, OutcomeClass outcome, double confidence, const Order& order) {
  std::vector<StratumCount> counts;
  counts.reserve(strata.size());
  for (const Member& member : strata) {
    counts.push_back({member.seen->bits, member.seen->count(outcome), member.seen->trials()});
  }
  const StratifiedRate rate = stratified_rate(counts, confidence);
  return {rate.estimate, rate.wilson, anytime_of(strata, outcome, confidence, order)};
}

Group make_group(const std::map<std::string, std::string>& key, const std::vector<Member>& strata,
                 double confidence, const Order& order) {
  Group group;
  group.key = key;
  for (const OutcomeClass outcome : {OutcomeClass::masked, OutcomeClass::sdc, OutcomeClass::crash}) {
    group.counts[outcome] = 0;
  }
  std::vector<Member> counted;  // a stratum without a row that counts has no rate yet
  for (const Member& member : strata) {
    group.waiting += member.seen->waiting;
    if (member.seen->trials() == 0) continue;
    counted.push_back(member);
    group.trials += member.seen->trials();
    group.bits += member.seen->bits;
    for (const record::Reason reason : member.seen->outcomes) {
      ++group.counts[record::class_of(reason)];
      ++group.reasons[reason];
    }
  }
  if (counted.empty()) return group;
  for (const auto& [outcome, count] : group.counts) {
    group.rates[outcome] = rate_of(counted, outcome, confidence, order);
  }
  return group;
}

std::uint64_t planned_by_spec(const record::CampaignSpec& spec, const Order& order) {
  const auto& draws = order.rounds.front().share;
  return spec.arms.size() * std::accumulate(draws.begin(), draws.end(), std::uint64_t{0});
}

}  // namespace

Summary summarize(const std::vector<record::TrialRecord>& rows, const record::CampaignSpec& spec,
                  const std::vector<std::string>& by, const std::vector<record::Round>& rounds) {
  Summary summary;
  summary.campaign = spec.name;
  summary.seed = spec.seed;
  summary.confidence = spec.confidence;
  summary.judge = spec.judge;
  summary.by = dimensions(by, spec);
  summary.rounds = rounds;
  summary.sampling = spec.sampling;
  const Observations seen = observe(rows, spec);
  const Order order = order_of(spec, rounds, seen);
  summary.canaries = seen.canaries;
  for (const record::Round& round : rounds) summary.planned += spec.arms.size() * round.draws();
  if (rounds.empty()) summary.planned = planned_by_spec(spec, order);

  const Keys keys(spec, summary.by);
  std::map<std::map<std::string, std::string>, std::vector<Member>> groups;
  for (const auto& [id, cell] : seen.cells) {
    summary.trials += cell.trials();
    summary.waiting += cell.waiting;
    groups[keys.of(id.first, id.second)].push_back({&cell, order.position(id.second)});
  }
  for (const auto& [key, strata] : groups) {
    summary.groups.push_back(make_group(key, strata, spec.confidence, order));
  }
  // Groups all of whose rows wait have nothing to show.
  std::erase_if(summary.groups, [](const Group& group) { return group.trials == 0; });
  return summary;
}

}  // namespace bitrift::analyze
