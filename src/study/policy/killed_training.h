// A training that is killed and resumed from its checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/process/subprocess.h"
#include "spec/checkpoint_policy.h"
#include "study/policy/useful_time.h"

namespace bitrift::study {

/// Runs `bitrift-train resume` of one checkpoint, serially, in a separate folder.
class KilledTraining {
 public:
  /// trainer: bitrift-train. folder: holds the saved files, and begins as a copy of the checkpoint `base`
  /// unless it has checkpoints already. log: output of the processes. Throws as run_program() does.
  KilledTraining(std::filesystem::path trainer, std::filesystem::path base, std::filesystem::path folder,
                 std::filesystem::path log);

  /// The cost of a step, a save of this mode and a restart, from a run that saves every `interval` steps; 0:
  /// as many as take two seconds. The run lasts about as long as the mean of a life, `mean` seconds, so that
  /// its first saves, which can cost more, have the same weight as in a life; but it saves at least three
  /// times. Throws Error(bad_input) where the training ends before it is killed, and as run_program() does.
  [[nodiscard]] PolicyCosts measure(record::SaveMode mode, std::int64_t interval, double mean);
  /// Resumes from the newest checkpoint and writes one every `interval` steps, until SIGKILL after `seconds`.
  /// Throws Error(bad_input) that names the log where the training ends before that.
  [[nodiscard]] Life live(record::SaveMode mode, std::int64_t interval, double seconds);

 private:
  [[nodiscard]] Command resume(const std::vector<std::string>& options) const;

  std::filesystem::path trainer_, base_, folder_, log_;
  double step_ = 0;  // approximate seconds of one; 0: unknown
};

}  // namespace bitrift::study
