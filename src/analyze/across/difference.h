// One rate in two campaigns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyze/across/sample.h"
#include "analyze/rates/interval.h"
#include "analyze/rates/paired.h"
#include "analyze/rates/unpaired.h"
#include "core/named_enum.h"
#include "record/outcome.h"

namespace bitrift::analyze {

/// How the trials of two campaigns correspond.
enum class ComparisonKind {
  paired,     ///< draw d of a stratum is the same fault in both
  unpaired,   ///< other faults in strata of the same sizes
  unrelated,  ///< other faults in other populations, or numbers of draws that depended on outcomes
};
constexpr EnumNames<3> names_of(ComparisonKind) {
  return {"kind of comparison", {"paired", "unpaired", "unrelated"}};
}

/// An arm of a campaign. What it points to must outlive it.
struct Side {
  const Sample* sample = nullptr;
  std::string arm;
  const ArmOutcomes* outcomes = nullptr;  ///< outcomes of the same draws, used instead of those of the sample
};

/// The rate of one outcome over some strata of two arms, and what can be said of their difference, second -
/// first. Both samples must have the same strata.
class RateDifference {
 public:
  /// strata: names; all of the campaign if empty. kind: paired, where the caller knows that draws are the
  /// same faults; absent: what the faults say. Throws Error(conflict) where an arm has no trial in the
  /// strata.
  RateDifference(Side first, Side second, record::OutcomeClass outcome,
                 const std::vector<std::string>& strata = {}, std::optional<ComparisonKind> kind = {});

  [[nodiscard]] ComparisonKind kind() const noexcept { return kind_; }
  /// These count the trials that are compared; where trials are paired, the ones that both sides have.
  [[nodiscard]] std::uint64_t first_trials() const noexcept { return first_trials_; }
  [[nodiscard]] std::uint64_t second_trials() const noexcept { return second_trials_; }
  [[nodiscard]] std::uint64_t first_hits() const noexcept { return first_hits_; }
  [[nodiscard]] std::uint64_t second_hits() const noexcept { return second_hits_; }
  /// Weighted by the bits of the strata.
  [[nodiscard]] double first_rate() const noexcept { return first_rate_; }
  [[nodiscard]] double second_rate() const noexcept { return second_rate_; }
  [[nodiscard]] double difference() const noexcept { return second_rate_ - first_rate_; }
  /// Share of the second campaign's bits in strata with trials of both.
  [[nodiscard]] double share_seen() const noexcept { return share_seen_; }
  /// Where paired.
  [[nodiscard]] const PairCounts& counts() const noexcept { return counts_; }

  /// Holds at every look of both campaigns (docs/statistics.md, "Between campaigns").
  [[nodiscard]] Interval interval(double confidence) const;
  /// The smallest error probability at which interval() leaves out 0.
  [[nodiscard]] double p() const;
  /// At which it lies above `tolerance`.
  [[nodiscard]] double p_above(double tolerance) const;

  /// Whether the numbers of draws were fixed in advance, which a test for one look needs.
  [[nodiscard]] bool fixed_draws() const noexcept { return fixed_; }
  /// For one look: McNemar's test of pairs, else Fisher's over strata and sizes of faults; absent unless
  /// fixed_draws().
  [[nodiscard]] std::optional<double> exact_p() const;
  /// One-sided: that the second rate is higher in some stratum, or among faults of some size.
  [[nodiscard]] std::optional<double> exact_p_above() const;

  /// By stratum and size of the fault, where both have trials; for tests of which differences could have been
  /// seen.
  [[nodiscard]] const std::vector<TwoCounts>& table() const noexcept { return table_; }

 private:
  void add(const std::string& stratum, bool counted, record::OutcomeClass outcome);
  void set_rates();

  Side first_, second_;
  ComparisonKind kind_ = ComparisonKind::unrelated;
  const Order* walked_ = nullptr;  // of the picks of both, if their draws are compared in that order
  bool fixed_ = false;
  bool sized_ = true;  // the sizes of all strata are known
  std::uint64_t first_trials_ = 0, second_trials_ = 0, first_hits_ = 0, second_hits_ = 0;
  double first_rate_ = 0, second_rate_ = 0, share_seen_ = 0;
  double bits_ = 0, bits_seen_ = 0;
  PairCounts counts_;
  std::vector<StratumPairs> pairs_;  // the draws that both have
  std::vector<StratumPairs> alone_;  // all draws of each
  std::vector<TwoCounts> table_;
};

/// The keys that the JSON of a comparison and of a gate share: kind, trials, hits, rates, difference and,
/// where paired, the pairs that only one side has.
[[nodiscard]] record::Json to_json(const RateDifference& rates);

}  // namespace bitrift::analyze
