// Names of the strata for the no-flip runs of a campaign's preparation.
#pragma once

#include <string>
#include <string_view>

namespace bitrift::record {

/// Stratum of the no-flip run that loads, evaluates and takes no step: the reference for the negated canary.
inline constexpr std::string_view zero_step_stratum = "control:zero";

/// Stratum of the no-flip runs of a golden data order: "control" for order 0, "control:order-K" for K > 0.
[[nodiscard]] std::string control_stratum(int order);
/// The data order of such a stratum; 0 for all other names.
[[nodiscard]] int order_of_control(std::string_view stratum) noexcept;

}  // namespace bitrift::record
