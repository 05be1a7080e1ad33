// Everything that a comparison with another campaign needs to know of a campaign, draw by draw.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyze/across/arm_reference.h"
#include "analyze/order.h"
#include "analyze/verdict/trust.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"
#include "record/outcome.h"
#include "record/round.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// The size of a fault that alters no number of a tensor.
inline constexpr double no_size = -1;

/// One stratum under one arm.
struct SampledCell {
  std::uint64_t bits = 0;                      ///< size of the stratum
  std::vector<record::OutcomeClass> outcomes;  ///< of draws 0, 1, ... without a gap
  std::vector<std::uint32_t> faults;           ///< of the same draws: CRC-32C of the altered place and bits
  /// By how much the fault of each of these draws changes the value of an element, at most; no_size if it
  /// alters no number. The largest double represents changes that are not finite.
  std::vector<double> sizes;
  /// The rises of each of these draws above the golden run; empty for crashes and for runs equal to it, bit
  /// for bit.
  std::vector<MetricValues> rises;
};

/// The draws of one arm, by stratum.
using ArmOutcomes = std::map<std::string, std::vector<record::OutcomeClass>>;

struct Sample {
  design::CampaignSpec spec;
  std::map<std::string, std::string> base_digests;  ///< by the stem of a BaseFile; digests that are not known
                                                    ///< are missing
  std::vector<record::Round> rounds;
  std::map<std::pair<std::string, std::string>, SampledCell> cells;  ///< (arm, stratum)
  std::map<std::string, ArmReference> references;                    ///< by arm
  std::size_t horizon = 0;        ///< the evaluation at which trials were judged, counted from 1
  std::int64_t horizon_step = 0;  ///< optimizer steps of the first arm from the resume to the horizon
  Order order;                    ///< follows from the other members

  /// nullptr if no row counts.
  [[nodiscard]] const SampledCell* cell(const std::string& arm, const std::string& stratum) const;
  /// Trials that count.
  [[nodiscard]] std::uint64_t trials() const noexcept;
  /// The rounds so far, or those of the spec.
  [[nodiscard]] std::uint64_t draws_per_arm() const noexcept;
  /// The numbers of draws did not depend on outcomes.
  [[nodiscard]] bool fixed_draws() const noexcept { return !spec.sampling; }
};

/// trust: of the same rows. Throws as summarize() does.
[[nodiscard]] Sample sample_of(const std::vector<record::TrialRecord>& rows, const design::CampaignSpec& spec,
                               const Trust& trust, const std::vector<record::Round>& rounds,
                               const std::map<std::string, std::string>& base_digests);

/// Schema "bitrift/baseline/3" (docs/ci.md); the caller adds "provenance".
[[nodiscard]] record::Json to_json(const Sample& sample);
/// Throws Error(bad_file) that says what is wrong, without the name of the file.
[[nodiscard]] Sample sample_from_json(const record::Json& value);

}  // namespace bitrift::analyze
