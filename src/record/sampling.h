// Sampling by rounds, as a user requests it (docs/spec.md, "sampling").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/json/json.h"
#include "record/outcome.h"

namespace bitrift::record {

/// The figure that must reach the half-width.
enum class SamplingTarget { totals, strata };
constexpr EnumNames<2> names_of(SamplingTarget) { return {"target of sampling", {"totals", "strata"}}; }

/// How later rounds are distributed over the strata.
enum class Allocation { neyman, even };
constexpr EnumNames<2> names_of(Allocation) { return {"allocation", {"neyman", "even"}}; }

struct Sampling {
  SamplingTarget target = SamplingTarget::totals;
  double half_width = 0.02;  ///< required of every interval of the target, as a share in (0, 0.5)
  std::vector<OutcomeClass> outcomes = {OutcomeClass::masked, OutcomeClass::sdc, OutcomeClass::crash};
  std::optional<std::uint64_t> max_trials;  ///< rows of kind trial, all arms together
  std::uint64_t pilot = 3;                  ///< draws per stratum of round 0
  Allocation allocation = Allocation::neyman;
};

/// Reads the value at /sampling of a document that obeys the schema. strata and arms: how many the campaign
/// has. Throws Error(bad_input) with file, line and key when max_trials is not even enough for the pilot.
[[nodiscard]] Sampling sampling_from(const Document& document, std::size_t strata, std::size_t arms);
[[nodiscard]] Json to_json(const Sampling& sampling);

/// "masked", "sdc" or "crash": the spelling of outcomes in specs.
[[nodiscard]] const char* outcome_key(OutcomeClass outcome) noexcept;
/// The inverse. Throws Error(bad_file) for any other text.
[[nodiscard]] OutcomeClass outcome_from_key(const std::string& key);

}  // namespace bitrift::record
