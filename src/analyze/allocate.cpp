#include "analyze/allocate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "analyze/rates/picks.h"
#include "analyze/rates/total_interval.h"
#include "core/error.h"
#include "design/extension.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;
using record::Reached;
using record::Round;
using record::Stop;
using record::StratumDraws;

// Chosen by simulation (bench/sampling.cpp).
constexpr double kGrowth = 0.25;    // the largest share that a round may have of all draws before it
constexpr double kSmallest = 0.05;  // and at least
// This share of the picks goes by size and evenly instead of by Neyman's rule.
constexpr double kFloorBySize = 0.1;
constexpr double kFloorEven = 0.02;
constexpr double kShareUnits = 1e6;

std::uint64_t drawn(const std::vector<Round>& earlier, std::size_t h) {
  const StratumDraws& last = earlier.back().strata[h];
  return last.first_draw + last.draws;
}

const StratumSeen& cell_of(const Observations& seen, const std::string& arm, const std::string& stratum,
                           std::uint64_t needed, std::uint64_t round) {
  static const StratumSeen nothing;
  const auto found = seen.cells.find({arm, stratum});
  const StratumSeen& cell = found == seen.cells.end() ? nothing : found->second;
  if (cell.trials() < needed) {
    fail(ErrorCode::conflict,
         "round {} cannot be planned: arm '{}', stratum {} has rows up to draw {} of {}; let `bitrift "
         "campaign run` finish the rounds before",
         round, arm, stratum, cell.trials(), needed);
  }
  return cell;
}

double rounded(double half_width) { return std::round(half_width * 1e6) / 1e6; }

/// The campaign's request, on which all functions below depend.
struct Case {
  const design::CampaignSpec& spec;
  const record::Sampling& sampling;
  const std::vector<Round>& earlier;  // all rounds, with the strata of `spec`
  const Observations& seen;
  double aim = 0;  // that of the first spec: bets may not depend on later requests

  [[nodiscard]] const std::vector<StratumDraws>& strata() const { return earlier.front().strata; }
  [[nodiscard]] const StratumSeen& cell(const std::string& arm, std::size_t h) const {
    return cell_of(seen, arm, strata()[h].stratum.name, drawn(earlier, h), earlier.size());
  }
};

std::vector<Reached> reached_totals(const Case& c) {
  const auto rounds = picked(c.earlier);
  std::vector<Reached> all;
  for (const design::Arm& arm : c.spec.arms) {
    for (const OutcomeClass outcome : c.sampling.outcomes) {
      std::vector<StratumHits> strata;
      for (std::size_t h = 0; h < c.strata().size(); ++h) {
        strata.push_back(
            {c.strata()[h].stratum.bits, c.cell(arm.name, h).hits(outcome, drawn(c.earlier, h)), true});
      }
      const Interval interval = total_interval(rounds, strata, c.spec.confidence, c.aim);
      all.push_back({arm.name, outcome, "", rounded((interval.high - interval.low) / 2)});
    }
  }
  return all;
}

double half_width_of(std::uint64_t hits, std::uint64_t draws, std::uint64_t bits, double confidence) {
  const Interval interval = anytime_finite(hits, draws, bits, confidence);
  return (interval.high - interval.low) / 2;
}

std::vector<Reached> reached_strata(const Case& c) {
  std::vector<Reached> all;
  for (const design::Arm& arm : c.spec.arms) {
    for (const OutcomeClass outcome : c.sampling.outcomes) {
      Reached widest{arm.name, outcome, "", -1};
      for (std::size_t h = 0; h < c.strata().size(); ++h) {
        const std::uint64_t draws = drawn(c.earlier, h);
        const double half = rounded(half_width_of(c.cell(arm.name, h).count(outcome, draws), draws,
                                                  c.strata()[h].stratum.bits, c.spec.confidence));
        if (half <= widest.half_width) continue;
        widest.half_width = half;
        widest.stratum = c.strata()[h].stratum.name;
      }
      all.push_back(widest);
    }
  }
  return all;
}

// The largest standard deviation of a requested outcome over all arms, where the rarer of "it" and "not it"
// counts.
double deviation(const Case& c, std::size_t h) {
  double most = 0;
  const std::uint64_t draws = drawn(c.earlier, h);
  const Imagined before = imagined(c.strata()[h].stratum.field);
  for (const design::Arm& arm : c.spec.arms) {
    for (const OutcomeClass outcome : c.sampling.outcomes) {
      const std::uint64_t hits = c.cell(arm.name, h).count(outcome, draws);
      const double rare = static_cast<double>(std::min(hits, draws - hits)) + before.rare;
      const double rate = rare / (static_cast<double>(draws) + before.draws);
      most = std::max(most, std::sqrt(rate * (1 - rate)));
    }
  }
  return most;
}

// The draws that a stratum still needs until every requested interval has the half-width, if its rates stay
// the same.
double forecast(const Case& c, std::size_t h) {
  const std::uint64_t draws = drawn(c.earlier, h);
  const std::uint64_t bits = c.strata()[h].stratum.bits;
  std::uint64_t most = 0;
  for (const design::Arm& arm : c.spec.arms) {
    for (const OutcomeClass outcome : c.sampling.outcomes) {
      const auto rate =
          static_cast<double>(c.cell(arm.name, h).count(outcome, draws)) / static_cast<double>(draws);
      const auto enough = [&](std::uint64_t n) {
        const auto hits = static_cast<std::uint64_t>(std::llround(rate * static_cast<double>(n)));
        return half_width_of(hits, n, bits, c.spec.confidence) <= c.sampling.half_width;
      };
      if (rounded(half_width_of(c.cell(arm.name, h).count(outcome, draws), draws, bits, c.spec.confidence)) <=
          c.sampling.half_width) {
        continue;
      }
      std::uint64_t below = draws;
      std::uint64_t above = std::min(bits, 2 * draws);
      while (above < bits && !enough(above)) {
        below = above;
        above = std::min(bits, 2 * above);
      }
      while (above - below > 1) {
        const std::uint64_t middle = below + (above - below) / 2;
        (enough(middle) ? above : below) = middle;
      }
      most = std::max(most, above - draws);
    }
  }
  return static_cast<double>(most);
}

// Demand by stratum: Shares out the rest by Neyman's rule, with a floor by size and by number, or evenly.
std::vector<double> demand_of_totals(const Case& c) {
  double sizes = 0;
  double number = 0;
  double sum = 0;
  std::vector<double> left;
  std::vector<double> demand;
  for (std::size_t h = 0; h < c.strata().size(); ++h) {
    left.push_back(static_cast<double>(c.strata()[h].stratum.bits - drawn(c.earlier, h)));
    demand.push_back(left[h] * deviation(c, h));
    sizes += left[h];
    number += left[h] > 0 ? 1 : 0;
    sum += demand[h];
  }
  for (std::size_t h = 0; h < left.size(); ++h) {
    if (left[h] == 0) continue;
    const double even = 1 / number;
    demand[h] = c.sampling.allocation == record::Allocation::even
                    ? even
                    : (1 - kFloorBySize - kFloorEven) * demand[h] / sum + kFloorBySize * left[h] / sizes +
                          kFloorEven * even;
  }
  return demand;
}

std::vector<double> demand_of_strata(const Case& c) {
  std::vector<double> demand;
  for (std::size_t h = 0; h < c.strata().size(); ++h) {
    const bool open = c.strata()[h].stratum.bits > drawn(c.earlier, h);
    demand.push_back(!open ? 0 : c.sampling.allocation == record::Allocation::even ? 1 : forecast(c, h));
  }
  return demand;
}

// The number of draws of a round in one arm: the draws that seem to be missing, between two shares of the
// existing ones.
std::uint64_t size_of_round(const Case& c, const Round& round, std::optional<std::uint64_t> affordable,
                            double missing) {
  double before = 0;
  for (const Round& one : c.earlier) before += static_cast<double>(one.draws());
  const double most = std::max(kGrowth * before, static_cast<double>(c.earlier.front().draws()));
  const double size = std::clamp(missing, std::max(1.0, kSmallest * before), most);
  auto draws = static_cast<std::uint64_t>(std::ceil(size));
  if (affordable) draws = std::min(draws, *affordable);
  std::uint64_t left = 0;
  for (const StratumDraws& cell : round.strata) left += cell.stratum.bits - cell.first_draw;
  return std::min(draws, left);
}

void plan_totals(const Case& c, Round& round, std::optional<std::uint64_t> affordable) {
  double before = 0;
  for (const Round& one : c.earlier) before += static_cast<double>(one.draws());
  const double ratio = round.widest()->half_width / c.sampling.half_width;
  round.picks = size_of_round(c, round, affordable, before * (ratio * ratio - 1));
  const std::vector<double> demand = demand_of_totals(c);
  const double sum = std::accumulate(demand.begin(), demand.end(), 0.0);
  std::vector<std::uint64_t> share;
  for (std::size_t h = 0; h < demand.size(); ++h) {
    const double units = std::round(kShareUnits * demand[h] / sum);
    round.strata[h].share = demand[h] > 0 ? static_cast<std::uint64_t>(std::max(1.0, units)) : 0;
    share.push_back(round.strata[h].share);
  }
  for (const std::uint32_t h : picks_by_share(round.seed, round.number, share, round.picks)) {
    StratumDraws& cell = round.strata[h];
    if (cell.first_draw + cell.draws < cell.stratum.bits) ++cell.draws;
  }
}

void plan_strata(const Case& c, Round& round, std::optional<std::uint64_t> affordable) {
  const std::vector<double> demand = demand_of_strata(c);
  const bool even = c.sampling.allocation == record::Allocation::even;
  double missing = std::accumulate(demand.begin(), demand.end(), 0.0);
  std::vector<std::uint64_t> capacity;
  double open = 0;
  for (std::size_t h = 0; h < demand.size(); ++h) {
    capacity.push_back(c.strata()[h].stratum.bits - drawn(c.earlier, h));
    open += demand[h] > 0 ? 1 : 0;
  }
  if (even) {
    missing = 0;
    for (std::size_t h = 0; h < demand.size(); ++h) {
      if (demand[h] > 0) missing = std::max(missing, forecast(c, h));
    }
    missing *= open;
  }
  const auto draws = apportion(size_of_round(c, round, affordable, missing), demand, capacity);
  for (std::size_t h = 0; h < draws.size(); ++h) round.strata[h].draws = draws[h];
}

std::vector<Reached> half_widths(const Case& c) {
  return c.sampling.target == record::SamplingTarget::totals ? reached_totals(c) : reached_strata(c);
}

// How many specs of the campaign have been carried out.
std::size_t stops(const std::vector<Round>& rounds) {
  return static_cast<std::size_t>(
      std::count_if(rounds.begin(), rounds.end(), [](const Round& round) { return round.stop.has_value(); }));
}

// The strata of `all` that a spec of the campaign has; the last spec has all.
std::vector<record::Stratum> strata_of_spec(const std::vector<record::Stratum>& all,
                                            const design::CampaignSpec& campaign, std::size_t number) {
  if (number >= campaign.earlier.size()) return all;
  std::vector<record::Stratum> strata;
  for (const record::Stratum& wanted : campaign.earlier[number].strata->strata()) {
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const record::Stratum& one) { return one.name == wanted.name; });
    if (found != all.end()) strata.push_back(*found);
  }
  return strata;
}

// The first round of a spec: the rest of a fixed number of draws, or a pilot if nothing was drawn.
void open_spec(Round& round, const design::CampaignSpec& all, std::size_t number) {
  const design::CampaignSpec& spec = design::generation(all, number);
  std::uint64_t faults = 0;
  for (StratumDraws& cell : round.strata) {
    std::uint64_t wanted = spec.exhaustive ? cell.stratum.bits : spec.trials_per_stratum;
    if (spec.sampling) wanted = cell.first_draw > 0 ? 0 : std::min(spec.sampling->pilot, cell.stratum.bits);
    cell.draws = wanted - std::min(wanted, cell.first_draw);
    faults += cell.stratum.bits;
  }
  if (spec.exhaustive && faults > largest_exhaustive) {
    fail(ErrorCode::bad_input,
         "exhaustive: the strata hold {} faults, and more than {} are not enumerated; narrow strata.tensors, "
         "roles or fields, or ask for `sampling`",
         faults, largest_exhaustive);
  }
  if (number == 0) return;
  const auto& known = design::generation(all, number - 1).arms;
  for (const design::Arm& arm : spec.arms) {
    const bool joins = std::none_of(known.begin(), known.end(),
                                    [&](const design::Arm& one) { return one.name == arm.name; });
    if (joins) round.joining.push_back(arm.name);
  }
}

}  // namespace

// All studies agree on one thing: a flip matters much more often in an exponent than in a sign or a mantissa.
// A wrong guess costs some draws; intervals do not depend on it.
Imagined imagined(const std::string& field) {
  if (field == "sign" || field == "mantissa") return {1, 40};
  return {2, 10};
}

std::vector<std::uint64_t> apportion(std::uint64_t total, const std::vector<double>& demand,
                                     const std::vector<std::uint64_t>& capacity) {
  std::vector<std::uint64_t> parts(demand.size(), 0);
  std::uint64_t left = total;
  while (left > 0) {
    double sum = 0;
    for (std::size_t h = 0; h < demand.size(); ++h) sum += parts[h] < capacity[h] ? demand[h] : 0;
    if (sum <= 0) break;
    // Rounds down first, then adds one each to the largest remainders, in the order of the strata when equal.
    std::vector<std::pair<double, std::size_t>> remainders;
    std::uint64_t given = 0;
    for (std::size_t h = 0; h < demand.size(); ++h) {
      if (demand[h] <= 0 || parts[h] >= capacity[h]) continue;
      const double due = static_cast<double>(left) * demand[h] / sum;
      const auto whole = std::min(static_cast<std::uint64_t>(due), capacity[h] - parts[h]);
      parts[h] += whole;
      given += whole;
      if (parts[h] < capacity[h]) remainders.emplace_back(due - std::floor(due), h);
    }
    left -= std::min(given, left);
    if (given > 0 && left > remainders.size()) continue;  // some were full: share out the rest
    std::stable_sort(remainders.begin(), remainders.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [remainder, h] : remainders) {
      if (left == 0) break;
      ++parts[h];
      --left;
    }
  }
  return parts;
}

Round next_round(const design::CampaignSpec& campaign, const std::vector<record::Stratum>& strata,
                 const std::vector<Round>& rounds, const Observations& seen) {
  const std::size_t number = stops(rounds);
  const design::CampaignSpec& spec = design::generation(campaign, number);
  const std::vector<record::Stratum> own = strata_of_spec(strata, campaign, number);
  const std::vector<Round> earlier = record::with_all_strata(rounds, own);
  Round round;
  round.number = earlier.size();
  round.seed = spec.seed;
  for (const design::Arm& arm : spec.arms) round.arms.push_back(arm.name);
  bool open = false;
  std::uint64_t before = 0;
  for (std::size_t h = 0; h < own.size(); ++h) {
    round.strata.push_back({own[h], earlier.empty() ? 0 : drawn(earlier, h), 0, 0});
    open = open || round.strata[h].first_draw < own[h].bits;
    before += round.strata[h].first_draw;
  }
  if (earlier.empty() || earlier.back().stop) {
    open_spec(round, campaign, number);
    if (earlier.empty() || round.draws() > 0 || !round.joining.empty()) return round;
  }
  if (!spec.sampling) {
    round.stop = Stop::plan;
    return round;
  }
  const Case c{spec, *spec.sampling, earlier, seen, design::generation(campaign, 0).sampling->half_width};
  round.reached = half_widths(c);
  std::optional<std::uint64_t> affordable;
  if (c.sampling.max_trials) {
    affordable = (*c.sampling.max_trials - std::min(*c.sampling.max_trials, before * spec.arms.size())) /
                 spec.arms.size();
  }
  if (!open) {
    round.stop = Stop::exhausted;
  } else if (round.widest()->half_width <= c.sampling.half_width) {
    round.stop = Stop::half_width;
  } else if (affordable && *affordable == 0) {
    round.stop = Stop::max_trials;
  } else if (c.sampling.target == record::SamplingTarget::totals) {
    plan_totals(c, round, affordable);
  } else {
    plan_strata(c, round, affordable);
  }
  return round;
}

}  // namespace bitrift::analyze
