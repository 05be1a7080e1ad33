// One call of Trainer::run. Inside train/run only.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/run.h"
#include "train/recover/snapshots.h"
#include "train/run/checkpoints.h"
#include "train/run/golden_path.h"
#include "train/run/recompute.h"
#include "train/run/recovery_run.h"
#include "train/run/rollback.h"
#include "train/run/run_options.h"
#include "train/run/state_watch.h"
#include "train/run/trainer_state.h"

namespace bitrift::train {

/// A run as a sequence of parts (see Next). Each part is first collective and then local: if a collective
/// fails, nothing of the part has happened yet on this rank, so that it can be repeated, or adopted from a
/// rank that completed it.
class Loop {
 public:
  Loop(TrainerState& state, const RunOptions& options);
  record::RunResult run();

 private:
  void advance();
  [[nodiscard]] bool done() const;
  [[nodiscard]] Next next_part();

  void step();
  void commit(const StepResult& outcome);
  void look();
  void evaluate();
  void finish();
  void leave();
  void keep_snapshot();

  void act();
  void watch();
  void stop(const std::string& why);
  void reject(const std::string& why);
  void lose(const std::string& why);
  void begin_trace();
  template <typename Work>
  auto timed(const Work& work) {
    const auto began = std::chrono::steady_clock::now();
    auto result = work();
    run_.result.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return result;
  }

  // Ranks that fail.
  void begin_team();
  /// asks: see Interrupted.
  void recover_from_loss(bool asks = false);
  void expand();
  void adopt(const Recovered& recovered);
  [[nodiscard]] Ledger ledger();
  void take_snapshot();
  void begin_again();
  void note_redone();

  [[nodiscard]] Progress& progress() { return state_.session().progress; }
  [[nodiscard]] const Progress& progress() const { return state_.session().progress; }

  TrainerState& state_;
  RunOptions options_;
  std::optional<StateWatch> states_;
  RunProgress run_{{0, Next::step}};
  double learning_rate_ = 0;         // of the current step
  std::vector<std::int64_t> batch_;  // of the last step, for the trace
  GoldenPath golden_;
  Rollback rollback_;
  Recompute recompute_;

  Snapshots snapshots_;
  Checkpoints checkpoints_;
  std::int64_t kept_ = -1;           // commits when a snapshot was last due
  std::int64_t furthest_ = 0;        // commits before the last failure
  std::optional<double> redo_from_;  // when the last recovery ended
  // Commits from which on the run asks for the ranks that it has lost; the same on all ranks that work.
  std::optional<std::int64_t> expands_at_;
};

}  // namespace bitrift::train
