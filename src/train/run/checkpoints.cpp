#include "train/run/checkpoints.h"

#include <utility>

#include "record/fault/death_note.h"
#include "train/run/state_moves.h"

namespace bitrift::train {
namespace {

// The first checkpoint whose interval the run chooses comes after this many steps: the first step is slower
// than others, and the next three give the time of a step.
constexpr std::int64_t first_chosen = 4;

}  // namespace

Checkpoints::Checkpoints(TrainerState& state, const RunOptions& options)
    : state_(state), options_(options), ledger_files_(options.ledger_folder, options.ledgers_kept) {}

bool Checkpoints::due(std::int64_t commits) {
  if (options_.choose_interval) {
    if (!next_) next_ = commits + first_chosen;
    return commits >= *next_ && commits != written_;
  }
  const std::int64_t every = state_.recovery.checkpoint_every;
  return every > 0 && commits > 0 && commits % every == 0 && commits != written_;
}

void Checkpoints::write(const Position& at, const std::function<Ledger()>& ledger) {
  keep_ledger(ledger());
  const double began = record::monotonic_seconds();
  const std::filesystem::path file = options_.checkpoint(options_.saves_to);
  if (options_.clock) options_.clock->saved(began, record::monotonic_seconds());
  ledger_files_.remove_earlier();
  file_ = file;
  written_ = at.commits;
  position_ = at;
  ledger_text_ = to_text(ledger());
  if (options_.choose_interval) choose_next(at.commits);
}

// Rank 0 knows how long the save took.
void Checkpoints::choose_next(std::int64_t commits) {
  const mpi::Communicator& ranks = state_.team.active();
  std::int64_t interval = 0;
  if (ranks.rank() == 0) interval = options_.clock->choose().steps;
  ranks.broadcast(&interval, sizeof interval, 0);
  next_ = commits + interval;
}

void Checkpoints::keep_ledger(Ledger now) {
  if (!options_.ledger_folder.empty()) now.shared = shared_state(state_.session());
  ledger_files_.write(state_.team.active(), state_.session().progress.step, now);
}

void Checkpoints::note_start_file(const Position& at, const std::function<Ledger()>& ledger) {
  if (!state_.team.may_lose() || options_.start_file.empty()) return;
  file_ = options_.start_file;
  position_ = at;
  ledger_text_ = to_text(ledger());
}

void Checkpoints::step_begins(std::int64_t commits) {
  if (!begun_) {
    begun_ = true;
    last_epoch_ = state_.session().progress.epoch + options_.epochs;
    return;
  }
  if (options_.clock) options_.clock->step_done(record::monotonic_seconds());
  if (std::exchange(prepared_, true) || !options_.before_checkpoints || !any_to_come(commits)) return;
  options_.before_checkpoints();
}

// At this step or one of the following.
bool Checkpoints::any_to_come(std::int64_t commits) const {
  const Progress& progress = state_.session().progress;
  const std::int64_t left = options_.steps ? *options_.steps - commits
                                           : (last_epoch_ - progress.epoch) * state_.steps_per_epoch() -
                                                 progress.cursor / state_.spec.batch_size;
  const std::int64_t last = commits + left - 1;  // steps before the last one
  if (options_.choose_interval) return last >= first_chosen;
  const std::int64_t every = state_.recovery.checkpoint_every;
  return every > 0 && last / every * every >= commits;
}

}  // namespace bitrift::train
