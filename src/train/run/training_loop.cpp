#include "train/run/training_loop.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "mpi/survivors.h"
#include "train/run/loop.h"
#include "train/step/schedule.h"

namespace bitrift::train {
namespace {

// Which metric of an evaluation is NaN or infinite; "" when none is. Under a dynamic loss scale a step may
// overflow and is skipped: then the training loss does not count.
std::string nonfinite_metric(const std::vector<record::Evaluation>& replicas, bool overflow_is_usual) {
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    if (!std::isfinite(replicas[r].test_loss)) return fmt::format("test loss of replica {}", r);
    if (!overflow_is_usual && !std::isfinite(replicas[r].train_loss.value_or(0))) return "training loss";
  }
  return "";
}

}  // namespace

Loop::Loop(TrainerState& state, const RunOptions& options) : state_(state), options_(options) {
  result_.id = options.id;
  result_.replicas.resize(static_cast<std::size_t>(state.parallel.replicas()));
  if (state.team.working()) states_.emplace(state, options.states);
}

record::RunResult Loop::run() {
  begin_team();
  if (state_.team.working() && at_ == Position{0, Next::step}) {
    first_epoch_ = progress().epoch;
    begin_trace();
    states_->after(0);
    at_.next = done() ? Next::evaluate : Next::step;
    note_start_file();
    if (options_.before_first_step) options_.before_first_step();
  }
  while (at_.next != Next::over) {
    try {
      advance();
    } catch (const mpi::RankFailed&) {
      if (!state_.team.may_lose()) throw;
      recover_from_loss();
    }
  }
  state_.kill_point.disarm();
  return std::move(result_);
}

void Loop::advance() {
  if (at_.commits == 0) keep_states();
  switch (at_.next) {
    case Next::look:
      return look();
    case Next::evaluate:
      return evaluate();
    case Next::step:
      return step();
    case Next::finish:
      return finish();
    case Next::save:
      state_.kill_point.at_step(result_.steps);
      if (options_.save && result_.status == record::RunStatus::done) options_.save();
      at_.next = Next::leave;
      return;
    case Next::leave:
      return leave();
    case Next::over:
      return;
  }
}

bool Loop::done() const {
  return options_.steps ? result_.steps >= *options_.steps
                        : progress().epoch - first_epoch_ >= options_.epochs;
}

// Behind a step, or behind the evaluation at the end of an epoch. A run that ends within an epoch is
// evaluated once more.
Next Loop::next_part() const {
  if (!done()) return Next::step;
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
  state_.kill_point.at_step(result_.steps + 1);
  const std::span<const std::int64_t> batch = state_.next_batch();
  if (options_.tracing) batch_.assign(batch.begin(), batch.end());
  learning_rate_ = progress().learning_rate;
  // The cost of the training itself, with or without bitrift: everything else is the harness's.
  commit(timed([&] { return state_.step(batch); }));
}

// What follows from a step on this rank alone.
void Loop::commit(const StepResult& outcome) {
  const double loss = outcome.batch.loss;
  last_ = {.epoch = progress().epoch,
           .learning_rate = learning_rate_,
           .loss = loss,
           .correct = outcome.batch.correct,
           .stopped = outcome.stopped};
  result_.last_loss = record::hex_float(loss);
  at_ = {at_.commits + 1, Next::look};
  note_redone();
  if (outcome.stopped) return;
  result_.steps += 1;
  states_->after(result_.steps);
  last_.training = training_metrics();
  last_.epoch_ended = progress().cursor + state_.spec.batch_size > state_.data->train_size();
  if (!last_.epoch_ended) return;
  progress().epoch += 1;
  progress().cursor = 0;
  progress().epoch_loss_sum = 0;
  progress().epoch_correct = 0;
  after_epoch(state_.spec.schedule, progress());
}

void Loop::look() {
  const std::string alarm = state_.settle(last_.stopped);
  if (last_.stopped) {
    if (!alarm.empty()) return reject(alarm);
    return stop(fmt::format("loss of step {} is {}", result_.steps + 1, last_.loss));
  }
  watch();
  if (!alarm.empty()) return reject(alarm);
  keep_states();
  mark_golden();
  if (returned()) return follow_golden();
  at_.next = last_.epoch_ended ? Next::evaluate : next_part();
}

void Loop::mark_golden() {
  if (!options_.keep_golden || marks_.size() >= static_cast<std::size_t>(result_.steps)) return;
  std::vector<std::string> digests(state_.map.hosts().size());
  state_.strategy().for_each_replica([&](int replica) {
    digests[static_cast<std::size_t>(replica * state_.map.stages() + state_.layout().stage())] =
        mark_digest(state_.session(), state_.spec.schedule);
  });
  marks_.push_back({last_.loss, last_.correct, std::move(digests)});
}

// Whether all ranks stand where the golden run stood after as many steps. The loss is the same on all ranks
// and cheap to compare; a state that differs although the losses agree is looked at ever more rarely.
bool Loop::returned() {
  const auto kept = state_.golden.find(options_.order);
  const bool follows = options_.early_end && !options_.keep_golden && !options_.steps;
  if (!follows || kept == state_.golden.end()) return false;
  const Trajectory& golden = kept->second;
  const auto at = static_cast<std::size_t>(result_.steps);
  if (at > golden.marks.size() || result_.steps < next_look_) return false;
  // A run that still has to lose a rank has not returned for good.
  for (const record::ProcessFault& fault : state_.kill_point.faults()) {
    if (fault.step >= result_.steps) return false;
  }
  const Trajectory::Mark& mark = golden.marks[at - 1];
  if (std::bit_cast<std::uint64_t>(mark.loss) != std::bit_cast<std::uint64_t>(last_.loss)) return false;
  bool equal = mark.digests.size() == state_.map.hosts().size();
  state_.strategy().for_each_replica([&](int replica) {
    const auto seat = static_cast<std::size_t>(replica * state_.map.stages() + state_.layout().stage());
    equal = equal && mark_digest(state_.session(), state_.spec.schedule) == mark.digests[seat];
  });
  const auto same = static_cast<char>(equal);
  std::vector<char> all(static_cast<std::size_t>(state_.layout().world.size()));
  state_.layout().world.allgather_equal(&same, 1, all.data());
  if (std::all_of(all.begin(), all.end(), [](char one) { return one != 0; })) return true;
  next_look_ = result_.steps + (gap_ *= 2);
  return false;
}

// From here on the golden run would be repeated; only the training metrics of the epoch under way have
// addends of this run's own. Nothing is left to run.
void Loop::follow_golden() {
  const Trajectory& golden = state_.golden.at(options_.order);
  record::Evaluation training = last_.training;
  result_.returned_step = result_.steps;
  states_->same_after(result_.steps);
  while (true) {
    const std::size_t next = result_.replicas[0].size();
    if (next < golden.result.replicas[0].size() && golden.result.replicas[0][next].step == result_.steps) {
      for (std::size_t r = 0; r < result_.replicas.size(); ++r) {
        record::Evaluation evaluation = golden.result.replicas[r][next];
        evaluation.train_loss = training.train_loss;
        evaluation.train_accuracy = training.train_accuracy;
        result_.replicas[r].push_back(evaluation);
      }
      progress().cursor = progress().epoch_correct = 0;
      progress().epoch_loss_sum = 0;
    }
    if (static_cast<std::size_t>(result_.steps) == golden.marks.size()) break;
    const Trajectory::Mark& mark = golden.marks[static_cast<std::size_t>(result_.steps++)];
    progress().cursor += state_.spec.batch_size;
    progress().epoch_loss_sum += mark.loss;
    progress().epoch_correct += mark.correct;
    training = training_metrics();
  }
  result_.test_targets = golden.result.test_targets;
  result_.last_loss = golden.result.last_loss;
  result_.replica_digests = golden.result.replica_digests;
  result_.final_digest = golden.result.final_digest;
  result_.nonfinite_state = golden.result.nonfinite_state;
  at_.next = Next::finish;
}

// A run with alarms is none to follow: those after the return would be missing. Where the team may lose
// members, each must know the marks of all seats.
void Loop::keep_golden() {
  state_.golden.erase(options_.order);
  const bool usable = result_.status == record::RunStatus::done && result_.alarm_count == 0 &&
                      result_.steps > 0 && progress().cursor == 0;
  if (!usable) return;
  if (state_.team.may_lose()) {
    record::Json mine = record::Json::array();
    for (const Trajectory::Mark& mark : marks_) mine.push_back(mark.digests);
    for (const std::string& text : state_.layout().world.allgather(mine.dump())) {
      const record::Json theirs = record::Json::parse(text);
      for (std::size_t i = 0; i < marks_.size(); ++i) {
        for (std::size_t seat = 0; seat < marks_[i].digests.size(); ++seat) {
          const auto digest = theirs.at(i).at(seat).get<std::string>();
          if (!digest.empty()) marks_[i].digests[seat] = digest;
        }
      }
    }
  }
  state_.golden.emplace(options_.order, Trajectory{std::move(marks_), result_});
}

void Loop::stop(const std::string& why) {
  result_.status = record::RunStatus::nonfinite;
  result_.detail = why;
  result_.nonfinite_step = result_.steps;
  at_.next = Next::finish;
}

void Loop::reject(const std::string& why) {
  result_.status = record::RunStatus::rejected;
  result_.detail = why;
  at_.next = Next::finish;
}

// Training metrics of the epoch under way; none when this run took no step.
record::Evaluation Loop::training_metrics() const {
  record::Evaluation evaluation;
  if (result_.steps > 0 && progress().cursor > 0) {
    const auto samples = static_cast<double>(progress().cursor);
    const std::int64_t steps =
        record::steps_in_epoch(state_.spec, progress().epoch, progress().cursor).value_or(1);
    evaluation.train_loss = progress().epoch_loss_sum / static_cast<double>(steps);
    evaluation.train_accuracy = static_cast<double>(progress().epoch_correct) /
                                (samples * static_cast<double>(state_.data->targets_per_sample()));
  }
  return evaluation;
}

void Loop::watch() {
  if (!options_.tracing && !options_.check_replicas) return;
  TraceStep step{last_.epoch, progress().step, batch_, last_.learning_rate, last_.loss, "", true};
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
  state_.kill_point.at_step(result_.steps);
  const bool epoch_ended = at_.commits > 0 && last_.epoch_ended && progress().cursor == 0;
  record::Evaluation training = epoch_ended ? last_.training : training_metrics();
  training.epoch = progress().epoch;
  training.step = result_.steps;
  std::vector<record::Evaluation> replicas;
  for (const TestResult& test : timed([&] { return state_.strategy().evaluate(); })) {
    replicas.push_back(training);
    replicas.back().test_loss = test.loss;
    replicas.back().test_accuracy = test.accuracy;
    replicas.back().test_capped_loss = test.capped_loss;
    result_.test_targets = test.targets;
  }
  if (epoch_ended) after_evaluation(state_.spec.schedule, replicas[0], progress());
  result_.replicas.resize(replicas.size());
  for (std::size_t r = 0; r < replicas.size(); ++r) result_.replicas[r].push_back(replicas[r]);
  if (options_.trace != nullptr) options_.trace->evaluation(replicas[0]);
  if (options_.on_evaluation && state_.layout().world.rank() == 0) options_.on_evaluation(replicas[0]);
  const std::string bad = nonfinite_metric(replicas, state_.scaler.dynamic());
  if (!bad.empty()) return stop(fmt::format("{} after step {} is not finite", bad, result_.steps));
  at_.next = epoch_ended ? next_part() : Next::finish;
}

// Alarms by step, then rank.
void Loop::finish() {
  record::RunResult whole = result_;
  if (state_.guards.any()) {
    record::Json mine = {{"count", state_.guards.count()}, {"alarms", record::Json::array()}};
    for (const record::Alarm& alarm : state_.guards.alarms())
      mine["alarms"].push_back(record::to_json(alarm));
    for (const std::string& text : state_.layout().world.allgather(mine.dump())) {
      const record::Json theirs = record::Json::parse(text);
      whole.alarm_count += theirs["count"].get<std::int64_t>();
      for (const record::Json& alarm : theirs["alarms"])
        whole.alarms.push_back(record::alarm_from_json(alarm));
    }
    std::stable_sort(whole.alarms.begin(), whole.alarms.end(),
                     [](const auto& a, const auto& b) { return a.step < b.step; });
  }
  if (!whole.returned_step) {
    whole.replica_digests = state_.digests();
    whole.final_digest = whole.replica_digests[0];
    const auto mine = static_cast<char>(state_.session().nonfinite());
    std::vector<char> all(static_cast<std::size_t>(state_.layout().world.size()));
    state_.layout().world.allgather_equal(&mine, 1, all.data());
    for (const char bad : all) whole.nonfinite_state = whole.nonfinite_state || bad != 0;
  }
  whole.propagation = states_->gather();
  result_ = std::move(whole);
  state_.guards.clear();
  if (options_.keep_golden) keep_golden();
  at_.next = Next::save;
}

record::RunResult run_loop(TrainerState& state, const RunOptions& options) {
  return Loop(state, options).run();
}

}  // namespace bitrift::train
