#include "train/run/loop.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/log.h"
#include "record/fault/death_note.h"
#include "train/run/state_moves.h"
#include "train/step/schedule.h"

namespace bitrift::train {
namespace {

// More than distinct failures bring about that come one after the other within a step.
constexpr int most_recoveries_without_progress = 10;

}  // namespace

Loop::Loop(TrainerState& state, const RunOptions& options)
    : state_(state),
      options_(options),
      golden_(state, options.keep_golden),
      rollback_(state, !options.failed_links.empty()),
      recompute_(state),
      checkpoints_(state, options_) {
  run_.result.id = options.id;
  run_.result.replicas.resize(static_cast<std::size_t>(state.parallel.replicas()));
  if (state.team.working()) states_.emplace(state, options.states);
}

record::RunResult Loop::run() {
  begin_team();
  if (state_.team.working() && run_.at == Position{0, Next::step}) {
    run_.first_epoch = progress().epoch;
    begin_trace();
    states_->after(0);
    state_.guards.remember(state_.session(), progress().step);
    run_.at.next = done() ? Next::evaluate : Next::step;
    checkpoints_.note_start_file(run_.at, [&] { return ledger(); });
    if (options_.before_first_step) options_.before_first_step();
  }
  while (run_.at.next != Next::over) {
    try {
      advance();
    } catch (const mpi::RankFailed&) {
      if (!state_.team.may_lose()) throw;
      recover_from_loss();
    }
  }
  if (state_.team.working() && state_.team.active().rank() == 0) {
    for (const record::ProcessFault& fault : state_.kill_point.faults()) {
      // A rank that was slow was not lost, and says so itself.
      if (fault.slowness && fault.step <= run_.result.steps) continue;
      spdlog::warn("rank {} was to fail at {}, which the run never reached", fault.rank,
                   record::to_text(fault));
    }
    for (const record::LinkFault& fault : state_.links.flips.missing(run_.result))
      spdlog::warn("a message was to be altered at {}, which the run never reached", record::to_text(fault));
    for (const record::ComputeFault& fault : state_.flips.missing(run_.result))
      spdlog::warn("a number was to be struck at {}, which the run never reached", record::to_text(fault));
    for (const record::FailedLink& link : state_.links.failures.missing(run_.result))
      spdlog::warn("a link was to be {} at {}, which the run never reached", name_of(link.kind),
                   record::to_text(link));
  }
  state_.kill_point.disarm();
  state_.links.flips.arm({});
  state_.links.failures.arm({});
  state_.flips.arm({});
  state_.restore_links();
  return std::move(run_.result);
}

void Loop::advance() {
  if (run_.at.commits == 0) keep_snapshot();
  switch (run_.at.next) {
    case Next::look:
      return look();
    case Next::evaluate:
      return evaluate();
    case Next::step:
      return step();
    case Next::finish:
      return finish();
    case Next::save:
      state_.kill_point.at_step(run_.result.steps);
      if (options_.save && run_.result.status == record::RunStatus::done) {
        checkpoints_.keep_ledger(ledger());
        options_.save();
      }
      run_.at.next = Next::leave;
      return;
    case Next::leave:
      return leave();
    case Next::over:
      return;
  }
}

bool Loop::done() const {
  return options_.steps ? run_.result.steps >= *options_.steps
                        : progress().epoch - run_.first_epoch >= options_.epochs;
}

// After a step or an epoch's evaluation. A run that ends within an epoch is evaluated once more, unless it
// was asked to leave.
Next Loop::next_part() {
  if (!done()) {
    if (!run_.last.leave) return Next::step;
    run_.result.left_undone = options_.steps ? *options_.steps - run_.result.steps
                                             : run_.first_epoch + options_.epochs - progress().epoch;
    return Next::finish;
  }
  return progress().cursor != 0 ? Next::evaluate : Next::finish;
}

void Loop::begin_trace() {
  if (!options_.tracing) return;
  const std::vector<std::string> digests = state_.digests();
  if (options_.trace == nullptr) return;
  options_.trace->begin(state_.spec, state_.parallel, state_.session().seed, state_.data->train_size(),
                        digests[0]);
}

void Loop::step() {
  if (expands_at_ && run_.at.commits >= *expands_at_) return expand();
  checkpoints_.step_begins(run_.at.commits);
  rollback_.keep(run_);
  // Here, because the evaluation that may follow a step is over: a schedule may have learned from it.
  if (checkpoints_.due(run_.at.commits)) {
    state_.kill_point.at_step(run_.result.steps);
    checkpoints_.write(run_.at, [&] { return ledger(); });
  }
  state_.kill_point.at_step(run_.result.steps + 1);
  state_.links.at_step(run_.result.steps + 1);
  state_.flips.at_step(run_.result.steps + 1);
  const std::string refusal = state_.meet_failed_links(run_.result);
  if (!refusal.empty()) return lose(refusal);
  const std::span<const std::int64_t> batch = state_.next_batch();
  if (options_.tracing) batch_.assign(batch.begin(), batch.end());
  learning_rate_ = progress().learning_rate;
  // The cost of the training itself, with or without bitrift: everything else is the cost of the harness.
  const double before = run_.result.seconds;
  const bool leave = options_.asked_to_leave && options_.asked_to_leave();
  const StepResult made = timed([&] { return recompute_.step(batch, leave); });
  state_.links.failures.took(run_.result.seconds - before);
  commit(made);
}

// The consequences of a step on this rank alone.
void Loop::commit(const StepResult& outcome) {
  const double loss = outcome.batch.loss;
  run_.last = {.epoch = progress().epoch,
               .learning_rate = learning_rate_,
               .loss = loss,
               .correct = outcome.batch.correct,
               .stopped = outcome.stopped,
               .leave = outcome.leave};
  run_.result.last_loss = record::hex_float(loss);
  run_.at = {run_.at.commits + 1, Next::look};
  note_redone();
  if (outcome.stopped) return;
  run_.result.steps += 1;
  states_->after(run_.result.steps);
  run_.last.training = training_metrics(state_, run_.result.steps);
  run_.last.epoch_ended = progress().cursor + state_.spec.batch_size > state_.data->train_size();
  if (!run_.last.epoch_ended) return;
  progress().epoch += 1;
  progress().cursor = 0;
  progress().epoch_loss_sum = 0;
  progress().epoch_correct = 0;
  after_epoch(state_.spec.schedule, progress());
}

void Loop::look() {
  const std::string alarm = state_.settle(run_.last.stopped);
  if (!alarm.empty() && rollback_.acts(run_)) return act();
  const bool ends = !alarm.empty() && state_.guards.stops();
  if (run_.last.stopped) {
    if (ends) return reject(alarm);
    return stop(fmt::format("loss of step {} is {}", run_.result.steps + 1, run_.last.loss));
  }
  watch();
  if (ends) return reject(alarm);
  keep_snapshot();
  golden_.mark(run_.last, run_.result.steps);
  if (golden_.meets(run_, options_)) {
    states_->same_after(run_.result.steps);
    golden_.follow(run_.last, run_.result);
    run_.at.next = Next::finish;
    return;
  }
  run_.at.next = run_.last.epoch_ended ? Next::evaluate : next_part();
}

// Goes back, and with `skip` leaves the step out that was made from there.
void Loop::act() {
  const StepResult made{.batch = {.loss = run_.last.loss, .correct = run_.last.correct},
                        .leave = run_.last.leave};
  rollback_.go_back(run_);
  states_->went_back(run_.result.steps);
  checkpoints_.moved();
  learning_rate_ = progress().learning_rate;
  if (state_.guards.spec().on_alarm == record::OnAlarm::skip) commit(state_.pass_over(made));
}

void Loop::stop(const std::string& why) {
  run_.result.status = record::RunStatus::nonfinite;
  run_.result.detail = why;
  run_.result.nonfinite_step = run_.result.steps;
  run_.at.next = Next::finish;
}

void Loop::reject(const std::string& why) {
  run_.result.status = record::RunStatus::rejected;
  run_.result.detail = why;
  run_.at.next = Next::finish;
}

void Loop::lose(const std::string& why) {
  run_.result.status = record::RunStatus::unrecovered;
  run_.result.detail = why;
  state_.links.failures.note_times(run_.result);
  if (state_.team.working() && state_.team.active().rank() == 0) state_.team.release();
  run_.at.next = Next::over;
}

void Loop::watch() {
  if (!options_.tracing && !options_.check_replicas) return;
  TraceStep step{run_.last.epoch, progress().step, batch_, run_.last.learning_rate, run_.last.loss, "", true};
  const std::vector<std::string> digests = state_.digests();
  for (std::size_t r = 1; r < digests.size(); ++r) {
    if (digests[r] == digests[0]) continue;
    step.replicas_equal = false;
    if (options_.check_replicas) {
      throw mpi::AgreedError(
          ErrorCode::internal,
          fmt::format("after step {} the state of replica {} differs from replica 0's", step.step, r));
    }
  }
  step.digest = digests[0];
  if (options_.trace != nullptr) options_.trace->step(step);
}

void Loop::evaluate() {
  state_.kill_point.at_step(run_.result.steps);
  const bool epoch_ended = run_.at.commits > 0 && run_.last.epoch_ended && progress().cursor == 0;
  record::Evaluation training =
      epoch_ended ? run_.last.training : training_metrics(state_, run_.result.steps);
  training.epoch = progress().epoch;
  training.step = run_.result.steps;
  std::vector<record::Evaluation> replicas;
  for (const TestResult& test : timed([&] { return state_.strategy().evaluate(); })) {
    replicas.push_back(training);
    replicas.back().test_loss = test.loss;
    replicas.back().test_accuracy = test.accuracy;
    replicas.back().test_capped_loss = test.capped_loss;
    run_.result.test_targets = test.targets;
  }
  if (epoch_ended) after_evaluation(state_.spec.schedule, replicas[0], progress());
  run_.result.replicas.resize(replicas.size());
  for (std::size_t r = 0; r < replicas.size(); ++r) run_.result.replicas[r].push_back(replicas[r]);
  if (options_.trace != nullptr) options_.trace->evaluation(replicas[0]);
  if (options_.on_evaluation && state_.layout().world.rank() == 0) options_.on_evaluation(replicas[0]);
  const std::string bad = nonfinite_metric(replicas, state_.scaler.dynamic());
  if (!bad.empty()) return stop(fmt::format("{} after step {} is not finite", bad, run_.result.steps));
  run_.at.next = epoch_ended ? next_part() : Next::finish;
}

void Loop::finish() {
  state_.kill_point.at_step(run_.result.steps);
  state_.kill_point.reach(record::FinishPoint::evaluated);
  record::RunResult whole = run_.result;
  if (state_.guards.any()) gather_alarms(state_.guards, state_.layout().world, whole);
  if (!whole.returned_step) {
    whole.replica_digests = state_.digests();
    whole.final_digest = whole.replica_digests[0];
    state_.kill_point.reach(record::FinishPoint::digests);
    const auto mine = static_cast<char>(state_.session().nonfinite());
    std::vector<char> all(static_cast<std::size_t>(state_.layout().world.size()));
    state_.layout().world.allgather_equal(&mine, 1, all.data());
    for (const char bad : all) whole.nonfinite_state = whole.nonfinite_state || bad != 0;
  }
  whole.propagation = states_->gather();
  state_.links.flips.gather(state_.layout().world, whole);
  state_.links.failures.gather(state_.layout().world, whole);
  state_.flips.gather(state_.layout().world, whole);
  run_.result = std::move(whole);
  state_.guards.clear();
  if (options_.keep_golden) golden_.keep(run_.result, options_.order);
  state_.kill_point.reach(record::FinishPoint::gathered);
  run_.at.next = Next::save;
}

// Waiting ranks wait until they are needed or the run is over; a rank that joined enters in the middle of a
// recovery.
void Loop::begin_team() {
  state_.kill_point.arm(options_.process_faults, options_.death_note);
  state_.links.flips.arm(options_.link_faults);
  state_.links.failures.arm(options_.failed_links);
  state_.flips.arm(options_.compute_faults);
  if (options_.relaunched) begin_again();
  if (!state_.team.may_lose()) return;
  if (state_.team.is_newcomer()) return recover_from_loss();
  if (state_.team.working()) return;
  if (state_.team.waits_among_first(state_.recovery.spares)) state_.warm_up();
  if (state_.team.stand_by()) {
    run_.at.next = Next::over;
  } else {
    recover_from_loss();
  }
}

// The state is that of the last checkpoint, and so is the ledger. A second rank may fail during this.
void Loop::begin_again() {
  const record::Relaunch& from = *options_.relaunched;
  state_.kill_point.at_step(from.step);
  state_.kill_point.reach(record::RecoveryPoint::noticed);
  state_.kill_point.reach(record::RecoveryPoint::shrunk);
  std::optional<Ledger> known = LedgerFiles::read(state_.team.active(), from.ledgers, progress().step);
  if (known && known->shared != shared_state(state_.session())) known.reset();
  if (!known && !from.checkpoint.empty())
    throw mpi::AgreedError(ErrorCode::internal, from.checkpoint + ": its ledger is not in " + from.ledgers);
  state_.kill_point.reach(record::RecoveryPoint::state);
  std::vector<record::Recovery> all = from.recoveries;
  all.back() = from.continued_behind(known ? known->result.steps : 0);
  if (known) {
    known->result.recoveries.insert(known->result.recoveries.end(), all.begin(), all.end() - 1);
    adopt({.works = true, .ledger = std::move(*known), .record = all.back()});
    kept_ = run_.at.commits;
    checkpoints_.stands_at(run_.at.commits);
    begin_trace();
  } else {
    furthest_ = all.back().steps_lost;
    redo_from_ = record::monotonic_seconds();
    run_.result.recoveries = std::move(all);
  }
  state_.forget(state_.recovery.forget);
  state_.kill_point.reach(record::RecoveryPoint::resumed);
}

// All ranks must be here before one of them ends the group's calls. Where the model is cut into more stages
// again, the state is that of a snapshot, so one is taken.
void Loop::expand() {
  expands_at_.reset();
  state_.stand_together();
  if (state_.map.stages() != state_.parallel.stages && state_.recovery.state != record::StateSource::file)
    take_snapshot();
  recover_from_loss(true);
}

void Loop::recover_from_loss(bool asks) {
  while (true) {
    Interrupted interrupted{.file_position = checkpoints_.position(),
                            .file_ledger = checkpoints_.ledger_text(),
                            .order = options_.order,
                            .death_note = options_.death_note,
                            .command = options_.command,
                            .asks = std::exchange(asks, false)};
    if (state_.team.working()) {
      interrupted.ledger = ledger();
      furthest_ = std::max(furthest_, run_.at.commits);
    }
    const Recovered recovered = recover(state_, snapshots_, interrupted);
    if (!recovered.refusal.empty()) {
      // The working ranks may have ended the run and left before a rank that should have reported it did so
      // here.
      if (!interrupted.ledger && options_.reported && options_.reported()) {
        run_.at.next = Next::over;
        return;
      }
      run_.result.recoveries.push_back(recovered.record);
      return lose(recovered.refusal);
    }
    if (recovered.works) return adopt(recovered);
    if (state_.team.stand_by()) {
      run_.at.next = Next::over;
      return;
    }
  }
}

Ledger Loop::ledger() {
  Ledger now{run_, options_};
  now.decision = state_.last_decision();
  now.faults = state_.kill_point.faults();
  now.batch_size = state_.spec.batch_size;
  now.costs = state_.costs;
  if (checkpoints_.position()) now.file = checkpoints_.file();
  return now;
}

void Loop::adopt(const Recovered& recovered) {
  run_ = static_cast<const RunProgress&>(recovered.ledger);
  static_cast<Terms&>(options_) = recovered.ledger.terms;
  run_.result.recoveries.push_back(recovered.record);
  kept_ = -1;
  checkpoints_.moved();
  furthest_ = std::max(furthest_, recovered.record.step + recovered.record.steps_lost);
  redo_from_ = record::monotonic_seconds();
  if (!states_) states_.emplace(state_, options_.states);
  expands_at_.reset();
  if (const std::int64_t after = state_.recovery.expand_after;
      after > 0 && state_.map.ranks() < state_.parallel.ranks)
    expands_at_ = run_.at.commits + after;
  const int futile = record::recoveries_without_progress(run_.result.recoveries);
  if (futile < most_recoveries_without_progress) return;
  lose(fmt::format(
      "{} recoveries, and none of them brought the run beyond step {}; the same error may come again in "
      "every try",
      futile, furthest_));
}

void Loop::note_redone() {
  if (!redo_from_ || run_.at.commits <= furthest_ || run_.result.recoveries.empty()) return;
  run_.result.recoveries.back().times.redo = record::monotonic_seconds() - *redo_from_;
  redo_from_.reset();
}

void Loop::keep_snapshot() {
  if (kept_ == run_.at.commits) return;
  const std::int64_t every = state_.recovery.snapshot_every;
  const bool due = every > 0 && (kept_ < 0 || run_.at.commits % every == 0);
  if (state_.team.may_lose() && due) take_snapshot();
  kept_ = run_.at.commits;
}

void Loop::take_snapshot() {
  Snapshot mine;
  mine.held = {run_.at, state_.layout().stage(), state_.layout().stages(), state_.layout().replica()};
  mine.state = snapshots_.buffer();
  pack_state(state_.session(), mine.state);
  mine.ledger = to_text(ledger());
  snapshots_.take(std::move(mine), state_.layout());
}

void Loop::leave() {
  state_.kill_point.at_step(run_.result.steps);
  state_.kill_point.reach(record::LeavePoint::saved, state_.team.may_lose());
  if (state_.team.may_lose()) {
    state_.stand_together();
    state_.team.part([&](bool leads) {
      state_.kill_point.reach(record::LeavePoint::agreed, true);
      const bool told = options_.reported && options_.reported();
      if (leads && options_.report && !told) options_.report(run_.result);
      state_.kill_point.reach(record::LeavePoint::reported, true);
    });
  }
  run_.at.next = Next::over;
}

}  // namespace bitrift::train
