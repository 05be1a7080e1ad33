// Names of strata that are no cells of a population: under them stand the runs of a campaign's preparation.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/named_enum.h"
#include "record/recovery.h"
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
/// Canaries of a campaign in which ranks fail.
enum class ProcessCanary {
  unreached,    ///< a rank is to fail after the end of the run
  recovers,     ///< a rank fails in an arm that promises the golden run's result all the same
  no_recovery,  ///< a rank fails, and the run may not continue without it
};
constexpr EnumNames<3> names_of(ProcessCanary) {
  return {"canary", {"canary:unreached", "canary:recovers", "canary:no-recovery"}};
}
/// Canaries of a campaign whose links alter messages.
enum class LinkCanary {
  unreached,  ///< a message is to be altered after the end of the run
  lands,      ///< a number that is added becomes huge, or tiny
};
constexpr EnumNames<2> names_of(LinkCanary) {
  return {"canary", {"canary:link-unreached", "canary:link-lands"}};
}
inline constexpr std::array link_canaries = {LinkCanary::unreached, LinkCanary::lands};
/// Canaries of a campaign in which links fail.
enum class FailedLinkCanary {
  unreached,  ///< a link is to be slow after the end of the run
  slow,       ///< a link is slow, which changes no bit
};
constexpr EnumNames<2> names_of(FailedLinkCanary) {
  return {"canary", {"canary:failure-unreached", "canary:slow-link"}};
}
inline constexpr std::array failed_link_canaries = {FailedLinkCanary::unreached, FailedLinkCanary::slow};
/// Those that an arm with this recovery has, in the order in which they run.
[[nodiscard]] std::vector<ProcessCanary> process_canaries(const RecoverySpec& recovery);

/// Stratum of the canary in which all tensors of a role are NaN: "canary:reads-ROLE".
[[nodiscard]] std::string reader_canary(std::string_view role);
/// The role of such a stratum; nullopt for all other names.
[[nodiscard]] std::optional<std::string> role_of_reader_canary(std::string_view stratum);
inline constexpr std::array canaries = {Canary::nan, Canary::negate, Canary::none};

}  // namespace bitrift::record
