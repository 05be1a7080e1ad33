// Canaries: faults whose outcome is known and required.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/named_enum.h"
#include "record/outcome.h"

namespace bitrift::design {

/// The outcome that a canary must have.
enum class Required {
  bitwise,                   ///< the final state equals the golden run's
  bitwise_without_recovery,  ///< the same, and no recovery happened
  bitwise_after_recovery,
  unrecovered,  ///< the run could not continue
  crash,
  sdc,
  crash_or_sdc,
  altered,  ///< any, but the final state differs from the golden run's
};

struct Canary {
  std::string stratum;  ///< "canary:nan"
  std::string altered;  ///< the change that it makes, in words
  Required required = Required::bitwise;
  bool lands = true;  ///< whether its change is expected to take effect
  std::string landing_problem = "what it should change was not changed when loaded";
  /// The problem if the outcome is not as required; "": made from `required`.
  std::string unmet = {};
  bool survives = true;         ///< its worker stays usable
  bool may_be_refused = false;  ///< if a run refuses its file, it shows that it reads the file
};

/// "masked (bitwise), after a recovery".
[[nodiscard]] std::string words_of(Required required);
/// The problem with the outcome of a canary: "must be crash, is masked (bitwise)"; "" when it is as required.
[[nodiscard]] std::string problem_of(const Canary& canary, const record::Outcome& outcome);
/// "crash (nonfinite)".
[[nodiscard]] std::string words_of(const record::Outcome& outcome);

/// The change to the base in a canary that every campaign has, in the order in which they run. The names are
/// those of strata.
enum class BaseCanary { nan, negate, none };
constexpr EnumNames<3> names_of(BaseCanary) {
  return {"canary", {"canary:nan", "canary:negate", "canary:none"}};
}
inline constexpr std::array base_canaries = {BaseCanary::nan, BaseCanary::negate, BaseCanary::none};
[[nodiscard]] Canary canary_of(BaseCanary canary);

/// Stratum of the canary in which all tensors of a role are NaN: "canary:reads-ROLE".
[[nodiscard]] std::string reader_canary(std::string_view role);
/// The role of such a stratum; nullopt for all other names.
[[nodiscard]] std::optional<std::string> role_of_reader_canary(std::string_view stratum);
[[nodiscard]] Canary reader_canary_of(const std::string& role);

}  // namespace bitrift::design
