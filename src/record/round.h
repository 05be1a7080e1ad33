// Rounds: the next draws, or why there are none (rounds/NNNN.json; docs/campaign.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/named_enum.h"
#include "record/json/json.h"
#include "record/outcome.h"
#include "record/sampling.h"
#include "record/trial.h"

namespace bitrift::record {

/// The draws of a round from one stratum, in every arm.
struct StratumDraws {
  Stratum stratum;
  std::uint64_t first_draw = 0;
  std::uint64_t draws = 0;
  /// A pick of the round chooses this stratum with probability share / (sum of all shares). 0 in every
  /// stratum: the draws were fixed in advance.
  std::uint64_t share = 0;
};

/// The state of one interval: the widest of the target for this arm and outcome.
struct Reached {
  std::string arm;
  OutcomeClass outcome = OutcomeClass::masked;
  std::string stratum;    ///< "": the weighted total
  double half_width = 1;  ///< (high - low) / 2, rounded to six decimals so that every machine gets the same
                          ///< value
};

/// Why no more is drawn.
enum class Stop { half_width, max_trials, exhausted, plan };
constexpr EnumNames<4> names_of(Stop) {
  return {"reason to stop", {"half_width", "max_trials", "exhausted", "plan"}};
}

struct Round {
  std::uint64_t number = 0;
  std::uint64_t seed = 0;
  std::vector<std::string> arms;
  /// Arms that an extension added: in this round they also run the draws of all rounds before it.
  std::vector<std::string> joining;
  std::vector<StratumDraws> strata;
  std::uint64_t picks = 0;       ///< how many times a stratum was picked by share; 0: fixed draws
  std::vector<Reached> reached;  ///< after the earlier rounds; empty in round 0 and without a target
  std::optional<Stop> stop;      ///< if present, the round draws nothing; absent: continue
  /// Draws of all strata, in one arm.
  [[nodiscard]] std::uint64_t draws() const noexcept;
  /// The largest of `reached`; nullptr when there is none.
  [[nodiscard]] const Reached* widest() const noexcept;
};

/// The same rounds as if all had the strata of the last: a stratum that was added later has no draws in
/// earlier rounds. Strata are only ever added, so their order stays.
[[nodiscard]] std::vector<Round> with_all_strata(std::vector<Round> rounds,
                                                 const std::vector<Stratum>& strata);

[[nodiscard]] Json to_json(const Round& round);
/// Throws Error(bad_file).
[[nodiscard]] Round round_from_json(const Json& value);

/// The state of sampling after the round `last`: {"asked", "round", "reached", "stop"}.
[[nodiscard]] Json sampling_state(const Sampling& asked, const Round& last);

/// In words: "all planned trials are done".
[[nodiscard]] const char* stop_text(Stop stop) noexcept;

}  // namespace bitrift::record
