// When a run writes checkpoints, which of them it keeps, and how often it should write one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/named_enum.h"
#include "spec/part.h"

namespace bitrift::record {

/// When a save returns.
enum class SaveMode {
  sync,   ///< when the disk has the file
  async,  ///< when the state is copied: the file is written in the background
};
constexpr EnumNames<2> names_of(SaveMode) { return {"mode of saving", {"sync", "async"}}; }

/// Which ranks write a checkpoint's file.
enum class SaveWriter {
  gather,  ///< rank 0, to which all other ranks send their tensors
  shared,  ///< every rank writes its tensors into the one file; all must see its folder
  direct,  ///< like gather, but bypassing the page cache
};
constexpr EnumNames<3> names_of(SaveWriter) {
  return {"writer of checkpoints", {"gather", "shared", "direct"}};
}

/// Not part of a checkpoint (docs/training.md, "Checkpoints").
struct CheckpointPolicy {
  std::int64_t every = 0;  ///< steps between two checkpoints; 0: only one at the end
  bool automatic = false;  ///< instead of `every`: computed from the measured cost of a save
  SaveMode mode = SaveMode::sync;
  SaveWriter writer = SaveWriter::gather;
  std::optional<int> keep = {};                           ///< newest files of a folder that are kept; absent:
                                                          ///< 2
  std::optional<double> mean_time_between_failures = {};  ///< seconds; with `automatic`

  static constexpr int usual_keep = 2;
  bool operator==(const CheckpointPolicy&) const = default;
  [[nodiscard]] bool writes() const noexcept { return automatic || every > 0; }
};

/// The text of `every`: a number of steps or "auto". Throws Error(bad_input) that begins with `where`.
void set_every(CheckpointPolicy& policy, const std::string& text, const std::string& where);
[[nodiscard]] CheckpointPolicy read_checkpoint_policy(const Part& part);
/// Refuses values that do not fit together. A command line may complete the policy of a spec, so this check
/// comes after both. Throws Error(bad_input).
void check_checkpoint_policy(const CheckpointPolicy& policy);

// The time between two checkpoints that minimises the cost for a long training, when failures come at random
// with a mean time M between them (exponentially distributed). All times are seconds above 0. The interval W
// is the time that a run works between the end of one save and the beginning of the next.

/// Synchronous saves of cost C: sqrt(2 C M), which minimises C / W + W / (2 M). J. W. Young, "A first order
/// approximation to the optimum checkpoint interval", Communications of the ACM 17(9), 1974.
[[nodiscard]] double young_interval(double cost, double mean_time_between_failures);

/// Synchronous saves of cost C: sqrt(2 C M) (1 + sqrt(C / (2 M)) / 3 + C / (2 M) / 9) - C for C < 2 M, else
/// M. J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
/// Generation Computer Systems 22(3), 2006, equation 37.
[[nodiscard]] double daly_interval(double cost, double mean_time_between_failures);

/// Expected time of a run for each second of work, with synchronous saves and restarts of R seconds: exp(R /
/// M) (exp((W + C) / M) - 1) M / W. daly_interval() approximates the minimum of this model (Daly 2006,
/// equation 20).
[[nodiscard]] double daly_slowdown(double interval, double cost, double restart,
                                   double mean_time_between_failures);

/// Saves in the background that stop the training for s seconds and reach the disk p seconds later: max(p,
/// daly_interval(s, M)), which minimises asynchronous_slowdown() over W >= p about as well as Daly's formula
/// minimises his model.
[[nodiscard]] double asynchronous_interval(double stall, double persist, double mean_time_between_failures);

/// Expected time of a run for each second of work, with saves in the background: exp(p / M) times
/// daly_slowdown() with cost s, for W >= p; with a smaller W a save would wait for the one before it. Own
/// derivation. A process that starts at 0 has save k on disk at R + k (W + s) + p; it survives until then
/// with probability exp(-that / M), so the expected number of its saves is a geometric series. Each save
/// stands for W of work, and the mean time of a process is M. For p = 0 that is Daly's model.
[[nodiscard]] double asynchronous_slowdown(double interval, double stall, double persist, double restart,
                                           double mean_time_between_failures);

/// An interval in steps: rounded, at least 1.
[[nodiscard]] std::int64_t steps_of_interval(double interval, double step_seconds);

}  // namespace bitrift::record
