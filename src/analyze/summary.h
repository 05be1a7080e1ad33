// From rows to rates: the content of the table and of summary.json, which the gate compares.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyze/apart.h"
#include "analyze/base_contents.h"
#include "analyze/group_rates.h"
#include "analyze/rates/effects.h"
#include "analyze/variation.h"
#include "analyze/verdict/assurance.h"
#include "analyze/views/dimension.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"
#include "record/outcome.h"
#include "record/round.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// A line of the table.
struct Group {
  std::map<std::string, std::string>
      key;                          ///< e.g. {"arm":"serial","field":"exponent"}; dimensions as in `by`
  std::uint64_t trials = 0;         ///< rows that count
  std::uint64_t waiting = 0;        ///< rows after a draw without a row yet; they do not count
  std::uint64_t bits = 0;           ///< population, of the strata whose size is known
  std::size_t strata = 0;           ///< the strata that it covers, wholly or in part
  std::vector<std::string> unseen;  ///< strata without a row that counts: estimates leave them out
  double share_seen = 1;            ///< of its bits in the other strata; 0 where the size of one is not known
  std::map<record::OutcomeClass, std::uint64_t> counts;
  std::map<record::Reason, std::uint64_t> reasons;
  std::map<record::OutcomeClass, Rate> rates;
  std::map<record::Course, std::uint64_t> courses;  ///< for SDCs with several evaluations
  std::optional<Interval> harmful;                  ///< harmful_interval()
  std::optional<Effects> effects;                   ///< where asked for
  std::vector<StratumRates> apart;                  ///< strata_apart(); empty where intervals hold together
};

/// How rates are shown.
struct SummaryOptions {
  IntervalKind interval = IntervalKind::anytime;
  bool simultaneous = false;  ///< the confidence is that of all intervals of the table together (Bonferroni)
  bool effects = false;       ///< losses of accuracy too
  std::vector<std::string> where = {};    ///< conditions on lines, as Where takes them
  const Contents* contents = nullptr;     ///< where needs_contents(); lives as long as the call
  bool untried = false;                   ///< keep groups without a trial, which have no rates
  std::optional<double> field_rate = {};  ///< faults in 1,000 GPU-days
};

/// A stratum under an arm of which every trial is bitwise.
struct AllBitwise {
  std::string arm, stratum;
  std::uint64_t trials = 0;
};

/// Fewer trials that are all bitwise prove nothing.
inline constexpr std::uint64_t least_all_bitwise = 5;

struct Summary {
  std::string campaign;  ///< name of the spec
  std::uint64_t seed = 0;
  double confidence = 0;       ///< of the spec: of every interval alone, or of all together
  double each_confidence = 0;  ///< of every interval alone
  SummaryOptions options;
  Judging judging;
  std::size_t evaluations = 0;    ///< evaluations of a run; judged at judging.horizon, or at the last
  std::int64_t horizon_step = 0;  ///< optimizer steps from the resume to the horizon, of the first arm
  std::map<std::string, Assurance> assurance;  ///< by arm
  std::vector<Variation> variations;
  std::vector<Dimension> by;  ///< in the order of the columns; strategy is always the first
  std::vector<Group> groups;  ///< as Lines sorts them
  /// With options.field_rate: the groups with as few dimensions as there can be, an arm each where strata are
  /// pooled.
  std::vector<Group> pooled;
  std::uint64_t trials = 0;    ///< rows that count
  std::uint64_t wanted = 0;    ///< the rows among them that options.where asks for
  std::uint64_t waiting = 0;   ///< and those that do not count yet
  std::uint64_t planned = 0;   ///< trials of all rounds so far
  std::uint64_t canaries = 0;  ///< checked, all of which behaved
  std::vector<AllBitwise>
      all_bitwise;  ///< Strata with at least least_all_bitwise trials; sorted. None where ranks or links fail
  /// Tensors that the strata ask for and that no fault is drawn from (BaseFile::unread), sorted; the layers
  /// of fault models are not looked at.
  std::vector<std::string> left_out;
  std::vector<record::Round> rounds;         ///< as given
  bool extended = false;                     ///< some of them draw faults that an extension added
  std::optional<record::Sampling> sampling;  ///< of the spec
};

/// Sorts groups by the lower end of the interval shown, then by the estimate, highest first; the estimate
/// from a single trial says little. Equal ones keep their order.
void sort_worst_first(Summary& summary, RateOf what);

/// Groups the `trial` rows. trust: of the same rows. A line covers all strata of the campaign that fall into
/// it. by: as dimensions() takes it (analyze/views/dimension.h). By layer, tensor or bit a line covers parts
/// of strata, whose sizes are those of options.contents. Canaries, controls and envelope runs never count.
/// rounds: as published; a spec with trials_per_stratum has only one and needs none. Throws as observe and
/// Lines do, and Error(conflict) on a row of a stratum that the rounds do not have; Error(bad_input) on an
/// unknown dimension or missing rounds.
[[nodiscard]] Summary summarize(const std::vector<record::TrialRecord>& rows,
                                const design::CampaignSpec& spec, const Trust& trust,
                                const std::vector<std::string>& by,
                                const std::vector<record::Round>& rounds = {},
                                const SummaryOptions& options = {});
/// The same, judged as the campaign asks.
[[nodiscard]] Summary summarize(const std::vector<record::TrialRecord>& rows,
                                const design::CampaignSpec& spec, const std::vector<std::string>& by,
                                const std::vector<record::Round>& rounds = {},
                                const SummaryOptions& options = {});

}  // namespace bitrift::analyze
