// Names of strata that are no cells of a population: under them stand the runs of a campaign's preparation.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "core/named_enum.h"
#include "record/trial.h"

namespace bitrift::record {

/// Stratum of the no-flip run that loads, evaluates and takes no step: what the negated canary is judged
/// against.
inline constexpr std::string_view zero_step_stratum = "control:zero";

/// Stratum of the no-flip runs of a golden data order: "control" for order 0, "control:order-K" for K > 0.
[[nodiscard]] std::string control_stratum(int order);
/// The data order of such a stratum; 0 for all other names.
[[nodiscard]] int order_of_control(std::string_view stratum) noexcept;

/// What is done to the base of a canary, in the order in which canaries run. The names are those of strata.
enum class Canary { nan, negate, none };
constexpr EnumNames<3> names_of(Canary) { return {"canary", {"canary:nan", "canary:negate", "canary:none"}}; }
/// Stratum of the canary in which all tensors of a role are NaN: "canary:reads-ROLE".
[[nodiscard]] std::string reader_canary(std::string_view role);
/// The role of such a stratum; nullopt for all other names.
[[nodiscard]] std::optional<std::string> role_of_reader_canary(std::string_view stratum);
inline constexpr std::array canaries = {Canary::nan, Canary::negate, Canary::none};

}  // namespace bitrift::record
