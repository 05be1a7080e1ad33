#include "analyze/rates/total_estimate.h"

#include <algorithm>

#include "core/error.h"

namespace bitrift::analyze {
namespace {

/// Processes the draws of the counted strata in order and forms an unbiased estimate of all rates from each
/// pick.
class Walk {
 public:
  Walk(const std::vector<StratumClasses>& strata, std::size_t classes)
      : strata_(strata),
        classes_(classes),
        known_(classes),
        guessed_(classes),
        hits_(classes),
        sum_(classes) {
    double bits = 0;
    for (const StratumClasses& one : strata) bits += one.counted ? static_cast<double>(one.bits) : 0;
    for (const StratumClasses& one : strata) {
      cells_.push_back(
          {one.counted ? static_cast<double>(one.bits) / bits : 0, 0, std::vector<double>(classes)});
      shared_ += cells_.back().weight;
    }
  }

  /// False when no round after this one can be used.
  bool pass(const PickedRound& round) { return round.fixed ? pass_fixed(round) : pass_picks(round); }

  /// sum of weighted terms, and of the weights.
  [[nodiscard]] const std::vector<double>& sum() const { return sum_; }
  [[nodiscard]] double weight() const { return weight_; }

 private:
  struct Cell {
    double weight = 0;
    std::uint64_t drawn = 0;
    std::vector<double> hits;  // by class
  };

  [[nodiscard]] bool open(std::size_t h) const {
    return strata_[h].counted && cells_[h].drawn < strata_[h].bits;
  }
  // The weight of everything that is not drawn yet.
  [[nodiscard]] double rest(std::size_t h) const {
    return cells_[h].weight *
           (1 - static_cast<double>(cells_[h].drawn) / static_cast<double>(strata_[h].bits));
  }
  // A class's rate in all counted strata so far, as if half a draw of each two classes had been added.
  [[nodiscard]] double pooled(std::size_t o) const {
    return (hits_[o] + 1 / static_cast<double>(classes_)) / (drawn_ + 1);
  }

  // The parts of a term that a stratum contributes: the known part, and the guess for the rest.
  void add_parts(std::size_t h, double sign) {
    const Cell& cell = cells_[h];
    const double per_draw = rest(h) / (static_cast<double>(cell.drawn) + 1);
    const double seen = cell.weight / static_cast<double>(strata_[h].bits);
    for (std::size_t o = 0; o < classes_; ++o) {
      known_[o] += sign * seen * cell.hits[o];
      guessed_[o] += sign * per_draw * cell.hits[o];
    }
    shared_ += sign * per_draw;
  }

  void take(std::size_t h) {
    Cell& cell = cells_[h];
    const std::size_t outcome = strata_[h].classes[cell.drawn];
    add_parts(h, -1);
    ++cell.drawn;
    ++cell.hits[outcome];
    add_parts(h, 1);
    ++hits_[outcome];
    ++drawn_;
  }

  // The draws of all strata together give one term: each is a fair sample of what was left of its stratum.
  bool pass_fixed(const PickedRound& round) {
    for (std::size_t h = 0; h < strata_.size(); ++h) {
      if (!open(h)) continue;
      if (round.share[h] == 0 || strata_[h].classes.size() < cells_[h].drawn + round.share[h]) return false;
    }
    std::vector<double> term = known_;
    for (std::size_t h = 0; h < strata_.size(); ++h) {
      if (!open(h)) continue;
      const double each = rest(h) / static_cast<double>(round.share[h]);
      for (std::uint64_t i = 0; i < round.share[h]; ++i) {
        term[strata_[h].classes[cells_[h].drawn + i]] += each;
      }
      for (std::uint64_t i = 0; i < round.share[h]; ++i) take(h);
    }
    add(term, round.weight);
    return true;
  }

  // A pick that falls outside the counted strata, or into one that is exhausted, changes no guess.
  bool pass_picks(const PickedRound& round) {
    double all = 0;
    for (std::size_t h = 0; h < strata_.size(); ++h) {
      if (open(h) && round.share[h] == 0) return false;
      all += static_cast<double>(round.share[h]);
    }
    std::vector<double> term(classes_);
    for (const std::uint32_t h : round.picks) {
      for (std::size_t o = 0; o < classes_; ++o) term[o] = known_[o] + guessed_[o] + pooled(o) * shared_;
      const bool used = open(h);
      if (used) {
        if (cells_[h].drawn == strata_[h].classes.size()) return false;
        const double reward = rest(h) * all / static_cast<double>(round.share[h]);
        const double draws = static_cast<double>(cells_[h].drawn) + 1;
        for (std::size_t o = 0; o < classes_; ++o) {
          term[o] -= reward * (cells_[h].hits[o] + pooled(o)) / draws;
        }
        term[strata_[h].classes[cells_[h].drawn]] += reward;
      }
      add(term, round.weight / static_cast<double>(round.picks.size()));
      if (used) take(h);
    }
    return true;
  }

  void add(const std::vector<double>& term, double weight) {
    for (std::size_t o = 0; o < classes_; ++o) sum_[o] += weight * term[o];
    weight_ += weight;
  }

  const std::vector<StratumClasses>& strata_;
  std::size_t classes_;
  std::vector<Cell> cells_;
  // A term is known + guessed + pooled x shared, each a sum over strata of which one draw changes one addend.
  std::vector<double> known_;
  std::vector<double> guessed_;
  double shared_ = 0;
  std::vector<double> hits_;  // by class, of all counted strata
  double drawn_ = 0;
  std::vector<double> sum_;
  double weight_ = 0;
};

/// Sums over the counted strata that have a draw.
struct Plain {
  std::vector<double> rates;  ///< sum_h w_h k_h / n_h
  std::vector<double> known;  ///< share of the total's bits that were drawn and gave the class
  std::size_t counted = 0;    ///< the strata of the total
  bool parts = false;         ///< some of them are counted in part
};

Plain plain_of(const std::vector<StratumClasses>& strata, std::size_t classes) {
  Plain plain{std::vector<double>(classes), std::vector<double>(classes), 0, false};
  double bits = 0;
  double seen = 0;
  for (const StratumClasses& one : strata) {
    if (!one.counted) continue;
    ++plain.counted;
    plain.parts = plain.parts || !one.whole;
    bits += static_cast<double>(one.bits);
    if (!one.classes.empty()) seen += static_cast<double>(one.bits);
  }
  if (seen <= 0) fail(ErrorCode::bad_input, "no stratum has a trial, so there is no rate");
  for (const StratumClasses& one : strata) {
    if (!one.counted || one.classes.empty()) continue;
    std::vector<double> hits(classes);
    for (const std::uint8_t outcome : one.classes) ++hits[outcome];
    const auto weight = static_cast<double>(one.bits) / seen;
    for (std::size_t o = 0; o < classes; ++o) {
      plain.rates[o] += weight * hits[o] / static_cast<double>(one.classes.size());
      plain.known[o] += hits[o] / bits;
    }
  }
  for (double& rate : plain.rates) rate = std::min(rate, 1.0);
  return plain;
}

// Terms vary on both sides of the possible range. Observed strata keep their values; the terms say how the
// rest is shared out.
std::vector<double> possible(const std::vector<double>& estimate, const Plain& plain) {
  std::vector<double> rates = plain.known;
  double room = 1;
  double beyond = 0;
  for (std::size_t o = 0; o < rates.size(); ++o) {
    room -= rates[o];
    if (plain.known[o] > 0) beyond += std::max(0.0, estimate[o] - plain.known[o]);
  }
  if (room <= 0 || beyond <= 0) return plain.rates;
  for (std::size_t o = 0; o < rates.size(); ++o) {
    if (plain.known[o] > 0) rates[o] += std::max(0.0, estimate[o] - plain.known[o]) * room / beyond;
  }
  return rates;
}

}  // namespace

std::vector<double> total_estimate(const std::vector<PickedRound>& rounds,
                                   const std::vector<StratumClasses>& strata, std::size_t classes) {
  const Plain plain = plain_of(strata, classes);
  const bool weighed =
      std::any_of(rounds.begin(), rounds.end(), [](const PickedRound& round) { return round.weight > 0; });
  if (plain.counted == 1 || plain.parts || !weighed) return plain.rates;
  Walk walk(strata, classes);
  for (const PickedRound& round : rounds) {
    if (!walk.pass(round)) break;
  }
  if (walk.weight() <= 0) return plain.rates;
  std::vector<double> estimate = walk.sum();
  for (double& rate : estimate) rate /= walk.weight();
  return possible(estimate, plain);
}

}  // namespace bitrift::analyze
