// Trials: the run, and its row.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/named_enum.h"
#include "record/fault/fault.h"
#include "record/fault/faults.h"
#include "record/run.h"

namespace bitrift::record {

/// What a row is for. Only `trial` rows enter estimates.
///   control   nothing altered, in a golden data order
///   envelope  nothing altered, another data order: calibrates the verdict
///   held_out  the same, but judged like a trial
///   jitter    the lowest bits of some weights flipped, in a golden data order; judged like a trial
///   canary    altered so that the outcome is known
enum class TrialKind { control, envelope, held_out, jitter, canary, trial };
constexpr EnumNames<6> names_of(TrialKind) {
  return {"kind of row", {"control", "envelope", "held_out", "jitter", "canary", "trial"}};
}

/// The identity of a row. For trials: (arm, stratum, draw). For all others but canaries stratum is the kind's
/// name and draw the repetition, or one of the names of record/stratum_name.h.
struct TrialId {
  std::string arm;
  std::string stratum;  ///< "weight.exponent"
  std::uint64_t draw = 0;
  /// "arm/stratum/draw"
  [[nodiscard]] std::string text() const;
  auto operator<=>(const TrialId&) const = default;
};
constexpr auto keys_of(std::type_identity<TrialId>) {
  return std::tuple(Key{"arm", &TrialId::arm}, Key{"stratum", &TrialId::stratum},
                    Key{"draw", &TrialId::draw});
}

/// A cell of the targeted bits.
struct Stratum {
  std::string name;  ///< "<role>.<field>"
  std::string role;
  std::string field;
  std::uint64_t bits = 0;  ///< size of the population: how many single-bit faults it holds
};
constexpr auto keys_of(std::type_identity<Stratum>) {
  return std::tuple(Key{"name", &Stratum::name}, Key{"role", &Stratum::role}, Key{"field", &Stratum::field},
                    Key{"bits", &Stratum::bits});
}

/// Size of a stratum whose faults are not a list that could be used up: sets of faults are drawn
/// independently of each other. The largest population for which intervals are computed: with it they are
/// those of draws with replacement.
inline constexpr std::uint64_t unbounded_stratum = std::uint64_t{1} << 52;

/// The change that a canary makes to every element of a tensor: flip its sign bit, or set it to NaN.
enum class WholeChange { negate, nan };
struct WholeTensor {
  std::string tensor;
  WholeChange change = WholeChange::negate;
  std::uint64_t elements = 0;  ///< how many, from the first one on; 0: all
  bool operator==(const WholeTensor&) const = default;
};

/// The part of a planned run that its row repeats.
struct PlannedRun {
  TrialKind kind = TrialKind::trial;
  TrialId id;
  /// Bits to change, whose new_pattern must be read back, or faults during the run. A canary that alters
  /// whole tensors has none.
  Faults faults;
  std::vector<int> replicas;       ///< replicas that load the altered file; empty: all
  int order = 0;                   ///< golden data order in which it runs, see CampaignSpec::orders
  Measure measure = Measure::bit;  ///< measure by which the faults were drawn
  Plane plane = Plane::value;      ///< plane of all its faults
};

/// A planned run, with everything that is needed to run it.
struct TrialSpec : PlannedRun {
  std::vector<WholeTensor> whole;  ///< for a canary without faults: the tensors that it changes
  std::int64_t epochs = 0;
  std::optional<std::uint64_t> order_seed;  ///< follows from `order`
  std::optional<Drill> drill;
  std::optional<RecoverySpec> recovery = {};  ///< where ranks fail: how the run is to recover
};

enum class FailureReason { exception, signal, hang };
constexpr EnumNames<3> names_of(FailureReason) {
  return {"reason for a failure", {"exception", "signal", "hang"}};
}

/// How a run failed when it produced no RunResult.
struct Failure {
  FailureReason reason = FailureReason::exception;
  std::string detail;  ///< what() of the exception, or the signal; "" for hang
  int signal = 0;      ///< 0 when unknown or none
  bool operator==(const Failure&) const = default;
};
constexpr auto keys_of(std::type_identity<Failure>) {
  return std::tuple(Key{"reason", &Failure::reason}, Key{"detail", &Failure::detail},
                    Key{"signal", &Failure::signal});
}

/// One row of the journal. Exactly one of result and failure is set.
struct TrialRecord : PlannedRun {
  std::uint64_t stratum_bits = 0;  ///< population of the stratum; unbounded_stratum for
                                   ///< sets of faults; 0 for controls, envelope and canaries
  bool landed = false;     ///< the loaded state differed from the base exactly in the altered tensors, or the
                           ///< intended ranks failed, messages were altered, or links failed
  bool no_change = false;  ///< the fault changed no bit (set or stuck-at)
  std::optional<RunResult> result;
  std::optional<Failure> failure;
  // volatile: left out of journal comparison
  std::string started;  ///< UTC, ISO 8601
  std::string host;
  double seconds = 0;  ///< from request to answer
  int attempts = 1;
};

/// {"kind","id":{...},...,"volatile":{...}}
[[nodiscard]] Json to_json(const TrialRecord& record);
[[nodiscard]] TrialRecord trial_record_from_json(const Json& value);
/// The row without its volatile fields (RunResult.seconds included): equal for equal trials.
[[nodiscard]] Json stable_json(const TrialRecord& record);

}  // namespace bitrift::record
