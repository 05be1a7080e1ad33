#include "analyze/order.h"

#include <algorithm>
#include <utility>

#include "analyze/allocate.h"
#include "core/error.h"
#include "design/extension.h"

namespace bitrift::analyze {
namespace {

// The share of the variance that a half-width leaves, (half-width)^2 / kSquares: simulation shows that
// campaigns stop there.
constexpr double kSquares = 6;
// A round is weighted as if its own part of the missing information were larger than forecast, by this
// factor: rounds that turn out to be the last leave little, others leave something for the next.
constexpr double kCaution = 0.3;

// For a spec with one round that is known before it runs.
Order order_of_spec(const design::CampaignSpec& spec, const Observations& seen) {
  Order order;
  PickedRound round;
  round.fixed = true;
  for (const record::Stratum& stratum : spec.strata->strata()) {
    order.names.push_back(stratum.name);
    order.bits.push_back(0);
    round.first.push_back(0);
    round.share.push_back(spec.trials_per_stratum);
  }
  for (const auto& [id, cell] : seen.cells) {
    const std::size_t at = order.position(id.second);
    order.bits[at] = cell.bits;
    if (spec.exhaustive) round.share[at] = cell.bits;
  }
  round.picks = picks_shuffled(spec.seed, 0, round.share);
  order.rounds.push_back(std::move(round));
  return order;
}

// The pilot has the value that it is believed to have, relative to the campaign's aim.
double pilot_weight(const record::Round& pilot, double half_width) {
  double bits = 0;
  for (const record::StratumDraws& cell : pilot.strata) bits += static_cast<double>(cell.stratum.bits);
  double variance = 0;
  for (const record::StratumDraws& cell : pilot.strata) {
    const Imagined before = imagined(cell.stratum.field);
    const double rate = before.rare / before.draws;
    const double share = static_cast<double>(cell.stratum.bits) / bits;
    if (cell.draws > 0) variance += share * share * rate * (1 - rate) / static_cast<double>(cell.draws);
  }
  const double asked = half_width * half_width / kSquares;
  return asked / (asked + variance);
}

// The part of the missing information that a later round brings.
double part_of_rest(const record::Round& round, double before, double half_width, double affordable) {
  double undrawn = 0;
  for (const record::StratumDraws& cell : round.strata) {
    undrawn += static_cast<double>(cell.stratum.bits - cell.first_draw);
  }
  const auto size = static_cast<double>(round.picks);
  if (size >= std::min(undrawn, affordable)) return 1;
  const record::Reached* widest = round.widest();
  const double ratio = widest == nullptr ? 1 : std::max(1.0, widest->half_width / half_width);
  return std::min(1.0, size / (before * (ratio - 1) + kCaution * size));
}

// The information that an extension to this half-width adds, as a multiple of what the rounds before its stop
// added: information grows with 1 / (half-width)^2.
double more_information(const record::Round& stop, double half_width) {
  const record::Reached* widest = stop.widest();
  const double ratio = widest == nullptr ? 1 : std::max(1.0, widest->half_width / half_width);
  return ratio * ratio - 1;
}

}  // namespace

std::size_t Order::position(const std::string& stratum) const {
  const auto found = std::find(names.begin(), names.end(), stratum);
  if (found == names.end()) {
    fail(ErrorCode::conflict, "the journal has rows of stratum '{}', which the campaign does not have",
         stratum);
  }
  return static_cast<std::size_t>(found - names.begin());
}

std::vector<double> round_weights(const design::CampaignSpec& campaign,
                                  const std::vector<record::Round>& rounds) {
  std::vector<double> weights;
  const bool weighed = campaign.sampling && campaign.sampling->target == record::SamplingTarget::totals;
  double before = 0;
  double rest = 1;
  double given = 0;
  std::size_t number = 0;
  for (const record::Round& round : rounds) {
    if (round.stop) {
      ++number;
      if (weighed && number < design::generations(campaign))
        rest = given * more_information(round, design::generation(campaign, number).sampling->half_width);
      continue;
    }
    if (round.draws() == 0) continue;
    double part = 0;
    const design::CampaignSpec& spec = design::generation(campaign, number);
    if (weighed && weights.empty()) {
      part = pilot_weight(round, spec.sampling->half_width);
    } else if (weighed) {
      double affordable = 1e300;
      if (spec.sampling->max_trials) {
        const std::uint64_t trials = *spec.sampling->max_trials / spec.arms.size();
        affordable = static_cast<double>(trials) - before;
      }
      part = part_of_rest(round, before, spec.sampling->half_width, affordable);
    }
    weights.push_back(rest * part);
    rest -= weights.back();
    given += weights.back();
    before += static_cast<double>(round.draws());
  }
  return weights;
}

Order order_of(const design::CampaignSpec& spec, const std::vector<record::Round>& rounds,
               const Observations& seen) {
  if (rounds.empty() && spec.sampling) {
    fail(ErrorCode::bad_input, "campaign '{}' samples by rounds, and none was given", spec.name);
  }
  if (rounds.empty()) return order_of_spec(spec, seen);
  Order order;
  std::vector<record::Stratum> strata;
  for (const record::StratumDraws& cell : rounds.back().strata) {  // extensions only add
    strata.push_back(cell.stratum);
    order.names.push_back(cell.stratum.name);
    order.bits.push_back(cell.stratum.bits);
  }
  order.rounds = picked(record::with_all_strata(rounds, strata));
  const std::vector<double> weights = round_weights(spec, rounds);
  for (std::size_t i = 0; i < weights.size(); ++i) order.rounds[i].weight = weights[i];
  // Bets may not depend on requests that came after the first draw.
  if (spec.sampling && spec.sampling->target == record::SamplingTarget::totals)
    order.aim = design::generation(spec, 0).sampling->half_width;
  return order;
}

}  // namespace bitrift::analyze
