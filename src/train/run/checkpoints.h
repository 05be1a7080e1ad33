// The checkpoints that a run writes, and what is kept in addition to them. Inside train/run only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "train/recover/position.h"
#include "train/recover/run_ledger.h"
#include "train/run/run_options.h"
#include "train/run/trainer_state.h"

namespace bitrift::train {

class Checkpoints {
 public:
  /// options: as long as this object lives.
  Checkpoints(TrainerState& state, const RunOptions& options);

  /// Whether a checkpoint is due after this many steps; the same on all ranks. Local.
  [[nodiscard]] bool due(std::int64_t commits);
  /// Collective. ledger: of the run as it is.
  void write(const Position& at, const std::function<Ledger()>& ledger);
  /// What a job that is launched again needs in addition to the next file. Collective.
  void keep_ledger(Ledger now);
  /// The state is that of a file: options.start_file, or of the last checkpoint.
  void stands_at(std::int64_t commits) noexcept { written_ = commits; }
  void note_start_file(const Position& at, const std::function<Ledger()>& ledger);
  /// The run went back, or continues from another rank's position.
  void moved() noexcept { written_ = -1; }
  /// A step begins, after this many; the work after the step before it, if there is one, is over. Local.
  void step_begins(std::int64_t commits);

  /// Where the last file was written, and the run's ledger then; nullopt and "": there is none.
  [[nodiscard]] const std::optional<Position>& position() const noexcept { return position_; }
  [[nodiscard]] const std::string& ledger_text() const noexcept { return ledger_text_; }
  [[nodiscard]] const std::filesystem::path& file() const noexcept { return file_; }

 private:
  void choose_next(std::int64_t commits);
  [[nodiscard]] bool any_to_come(std::int64_t commits) const;

  TrainerState& state_;
  const RunOptions& options_;
  LedgerFiles ledger_files_;
  bool begun_ = false;  // a step has
  bool prepared_ = false;
  std::int64_t last_epoch_ = 0;       // number of the last epoch that the run completes, without
                                      // RunOptions::steps
  std::int64_t written_ = -1;         // commits at the last one
  std::optional<std::int64_t> next_;  // commits at the next one, if the run chooses the interval
  std::optional<Position> position_;
  std::string ledger_text_;
  std::filesystem::path file_;
};

}  // namespace bitrift::train
