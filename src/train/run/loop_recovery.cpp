// The parts of a run that deal with ranks that fail.
#include <algorithm>
#include <filesystem>

#include "core/log.h"
#include "mpi/survivors.h"
#include "train/run/loop.h"

namespace bitrift::train {

// Those who wait do so until they are needed or the run is over; who joined comes into the middle of a
// recovery.
void Loop::begin_team() {
  std::error_code ignored;
  const bool first = state_.team.working() && state_.team.active().rank() == 0;
  if (first && !options_.process_faults.empty()) std::filesystem::remove(options_.death_note, ignored);
  state_.kill_point.arm(options_.process_faults, options_.death_note);
  if (options_.relaunched) {
    result_.recoveries.push_back(*options_.relaunched);
    furthest_ = options_.relaunched->steps_lost;
    redo_from_ = monotonic_seconds();
  }
  if (!state_.team.may_lose()) return;
  if (state_.team.is_newcomer()) return recover_from_loss();
  if (state_.team.working()) return;
  if (state_.team.stand_by()) {
    at_.next = Next::over;
  } else {
    recover_from_loss();
  }
}

// The file that the run began with is its first checkpoint.
void Loop::note_start_file() {
  if (!state_.team.may_lose() || options_.start_file.empty()) return;
  file_position_ = at_;
  file_ledger_ = to_text(ledger());
}

void Loop::recover_from_loss() {
  while (true) {
    Interrupted interrupted{.file_position = file_position_,
                            .file_ledger = file_ledger_,
                            .order = options_.order,
                            .death_note = options_.death_note,
                            .command = options_.command};
    if (state_.team.working()) {
      interrupted.ledger = ledger();
      furthest_ = std::max(furthest_, at_.commits);
    }
    Recovered recovered = recover(state_, snapshots_, interrupted);
    if (!recovered.refusal.empty()) {
      result_.status = record::RunStatus::unrecovered;
      result_.detail = recovered.refusal;
      result_.recoveries.push_back(recovered.record);
      if (state_.team.working() && state_.team.active().rank() == 0) state_.team.release();
      at_.next = Next::over;
      return;
    }
    if (recovered.works) return adopt(std::move(recovered));
    if (state_.team.stand_by()) {
      at_.next = Next::over;
      return;
    }
  }
}

Ledger Loop::ledger() {
  Ledger now{.at = at_,
             .terms = {options_.steps, options_.epochs, options_.order, options_.early_end},
             .result = result_,
             .first_epoch = first_epoch_,
             .last = last_};
  now.decision = state_.last_decision();
  now.next_look = next_look_;
  now.gap = gap_;
  now.faults = state_.kill_point.faults();
  now.batch_size = state_.spec.batch_size;
  now.costs = state_.costs;
  if (file_position_) now.file = options_.checkpoint_file;
  if (file_position_ && file_position_->commits == 0) now.file = options_.start_file;
  return now;
}

void Loop::adopt(Recovered recovered) {
  const Ledger& run = recovered.ledger;
  at_ = run.at;
  result_ = run.result;
  first_epoch_ = run.first_epoch;
  options_.steps = run.terms.steps;
  options_.epochs = run.terms.epochs;
  options_.order = run.terms.order;
  options_.early_end = run.terms.early_end;
  last_ = run.last;
  next_look_ = run.next_look;
  gap_ = run.gap;
  result_.recoveries.push_back(recovered.record);
  kept_ = -1;
  furthest_ = std::max(furthest_, recovered.record.step + recovered.record.steps_lost);
  redo_from_ = monotonic_seconds();
  if (!states_) states_.emplace(state_, options_.states);
}

void Loop::note_redone() {
  if (!redo_from_ || at_.commits <= furthest_ || result_.recoveries.empty()) return;
  result_.recoveries.back().times.redo = monotonic_seconds() - *redo_from_;
  redo_from_.reset();
}

void Loop::keep_states() {
  if (kept_ == at_.commits) return;
  const auto due = [&](std::int64_t every) { return every > 0 && at_.commits % every == 0; };
  if (due(state_.recovery.checkpoint_every) && at_.commits > 0) write_checkpoint();
  const bool first = kept_ < 0 && state_.recovery.snapshot_every > 0;
  if (state_.team.may_lose() && (first || due(state_.recovery.snapshot_every))) take_snapshot();
  kept_ = at_.commits;
}

void Loop::take_snapshot() {
  Snapshot mine;
  mine.held = {at_, state_.layout().stage(), state_.layout().stages(), state_.layout().replica()};
  mine.state = copy_state(state_.session());
  mine.ledger = to_text(ledger());
  snapshots_.take(std::move(mine), state_.layout());
}

void Loop::write_checkpoint() {
  options_.checkpoint();
  file_position_ = at_;
  file_ledger_ = to_text(ledger());
}

void Loop::leave() {
  if (state_.team.may_lose()) {
    if (!mpi::all_agree(state_.team.active(), true))
      throw mpi::RankFailed("a rank died at the end of the run");
    if (state_.team.active().rank() == 0) state_.team.release();
  }
  at_.next = Next::over;
}

}  // namespace bitrift::train
