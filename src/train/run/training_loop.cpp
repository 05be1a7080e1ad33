#include "train/run/training_loop.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>

#include "train/run/state_watch.h"
#include "train/run/trainer_state.h"
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

// One call of Trainer::run.
class Loop {
 public:
  Loop(TrainerState& state, const RunOptions& options)
      : state_(state),
        options_(options),
        progress_(state.session.progress),
        first_epoch_(progress_.epoch),
        states_(state, options.states) {
    result_.replicas.resize(static_cast<std::size_t>(state.layout.replica_count()));
    const auto kept = state.golden.find(options.order);
    const bool follows = options.early_end && !options.keep_golden && !options.steps;
    if (follows && kept != state.golden.end()) golden_ = &kept->second;
  }

  record::RunResult run() {
    begin_trace();
    states_.after(0);
    if (done() && options_.before_first_step) options_.before_first_step();
    bool well = true;
    while (well && !done()) well = step();
    if (well && (result_.steps == 0 || progress_.cursor != 0)) evaluate(training_metrics(), false);
    if (!result_.returned_step) finish();
    if (options_.keep_golden) keep_golden();
    result_.propagation = states_.gather();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool done() const {
    return options_.steps ? result_.steps >= *options_.steps
                          : progress_.epoch - first_epoch_ >= options_.epochs;
  }

  // The cost of the training itself, with or without bitrift: everything else is the harness's.
  template <typename Work>
  auto timed(const Work& work) {
    const auto began = std::chrono::steady_clock::now();
    auto result = work();
    result_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return result;
  }

  void begin_trace() {
    if (!options_.tracing) return;
    const std::vector<std::string> digests = state_.digests();
    if (options_.trace == nullptr) return;
    options_.trace->begin(state_.spec, state_.parallel, state_.session.seed, state_.data->train_size(),
                          digests[0]);
  }

  // False when the run stops here.
  bool step() {
    if (result_.steps == 0 && options_.before_first_step) options_.before_first_step();
    const std::int64_t epoch = progress_.epoch;
    const double learning_rate = progress_.learning_rate;
    const std::span<const std::int64_t> batch = state_.next_batch();
    const StepResult outcome = timed([&] { return state_.step(batch); });
    const double loss = outcome.batch.loss;
    result_.last_loss = record::hex_float(loss);
    if (!outcome.alarm.empty() && outcome.stopped) return reject(outcome.alarm);
    if (outcome.stopped) return stop(fmt::format("loss of step {} is {}", result_.steps + 1, loss));
    result_.steps += 1;
    states_.after(result_.steps);
    const record::Evaluation training = training_metrics();
    const bool epoch_ended = progress_.cursor + state_.spec.batch_size > state_.data->train_size();
    if (epoch_ended) {
      progress_.epoch += 1;
      progress_.cursor = 0;
      progress_.epoch_loss_sum = 0;
      progress_.epoch_correct = 0;
      after_epoch(state_.spec.schedule, progress_);
    }
    watch({epoch, progress_.step, batch, learning_rate, loss, "", true});
    if (!outcome.alarm.empty()) return reject(outcome.alarm);
    if (options_.keep_golden) {
      marks_.push_back({loss, outcome.batch.correct, mark_digest(state_.session, state_.spec.schedule)});
    }
    if (returned(loss)) return follow_golden(training);
    return !epoch_ended || evaluate(training, true);
  }

  // Whether all ranks stand where the golden run stood after as many steps. The loss is the same on all ranks
  // and cheap to compare; a state that differs although the losses agree is looked at ever more rarely.
  bool returned(double loss) {
    if (golden_ == nullptr) return false;
    const Trajectory& golden = *golden_;
    const auto at = static_cast<std::size_t>(result_.steps);
    if (at > golden.marks.size() || result_.steps < next_look_) return false;
    const Trajectory::Mark& mark = golden.marks[at - 1];
    if (std::bit_cast<std::uint64_t>(mark.loss) != std::bit_cast<std::uint64_t>(loss)) return false;
    const auto same = static_cast<char>(mark_digest(state_.session, state_.spec.schedule) == mark.digest);
    std::vector<char> all(static_cast<std::size_t>(state_.layout.world.size()));
    state_.layout.world.allgather_equal(&same, 1, all.data());
    if (std::all_of(all.begin(), all.end(), [](char one) { return one != 0; })) return true;
    next_look_ = result_.steps + (gap_ *= 2);
    return false;
  }

  // From here on the golden run would be repeated; only the training metrics of the epoch under way have
  // addends of this run's own. Always false: nothing is left to run.
  bool follow_golden(record::Evaluation training) {
    const Trajectory& golden = *golden_;
    result_.returned_step = result_.steps;
    states_.same_after(result_.steps);
    while (true) {
      const std::size_t next = result_.replicas[0].size();
      if (next < golden.result.replicas[0].size() && golden.result.replicas[0][next].step == result_.steps) {
        for (std::size_t r = 0; r < result_.replicas.size(); ++r) {
          record::Evaluation evaluation = golden.result.replicas[r][next];
          evaluation.train_loss = training.train_loss;
          evaluation.train_accuracy = training.train_accuracy;
          result_.replicas[r].push_back(evaluation);
        }
        progress_.cursor = progress_.epoch_correct = 0;
        progress_.epoch_loss_sum = 0;
      }
      if (static_cast<std::size_t>(result_.steps) == golden.marks.size()) break;
      const Trajectory::Mark& mark = golden.marks[static_cast<std::size_t>(result_.steps++)];
      progress_.cursor += state_.spec.batch_size;
      progress_.epoch_loss_sum += mark.loss;
      progress_.epoch_correct += mark.correct;
      training = training_metrics();
    }
    result_.test_targets = golden.result.test_targets;
    result_.last_loss = golden.result.last_loss;
    result_.replica_digests = golden.result.replica_digests;
    result_.final_digest = golden.result.final_digest;
    result_.nonfinite_state = golden.result.nonfinite_state;
    return false;
  }

  // A run with alarms is none to follow: those after the return would be missing.
  void keep_golden() {
    state_.golden.erase(options_.order);
    if (result_.status == record::RunStatus::done && result_.alarm_count == 0 && result_.steps > 0 &&
        progress_.cursor == 0)
      state_.golden.emplace(options_.order, Trajectory{std::move(marks_), result_});
  }

  bool stop(const std::string& why) {
    result_.status = record::RunStatus::nonfinite;
    result_.detail = why;
    result_.nonfinite_step = result_.steps;
    return false;
  }

  bool reject(const std::string& why) {
    result_.status = record::RunStatus::rejected;
    result_.detail = why;
    return false;
  }

  // Training metrics of the epoch under way; none when this run took no step.
  [[nodiscard]] record::Evaluation training_metrics() const {
    record::Evaluation evaluation;
    if (result_.steps > 0 && progress_.cursor > 0) {
      const auto samples = static_cast<double>(progress_.cursor);
      evaluation.train_loss = progress_.epoch_loss_sum / (samples / state_.spec.batch_size);
      evaluation.train_accuracy = static_cast<double>(progress_.epoch_correct) /
                                  (samples * static_cast<double>(state_.data->targets_per_sample()));
    }
    return evaluation;
  }

  void watch(TraceStep step) {
    if (!options_.tracing && !options_.check_replicas) return;
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

  // False when a metric is not finite.
  bool evaluate(record::Evaluation training, bool epoch_ended) {
    training.epoch = progress_.epoch;
    training.step = result_.steps;
    std::vector<record::Evaluation> replicas;
    for (const TestResult& test : timed([&] { return state_.strategy.evaluate(); })) {
      replicas.push_back(training);
      replicas.back().test_loss = test.loss;
      replicas.back().test_accuracy = test.accuracy;
      replicas.back().test_capped_loss = test.capped_loss;
      result_.test_targets = test.targets;
    }
    if (epoch_ended) after_evaluation(state_.spec.schedule, replicas[0], progress_);
    for (std::size_t r = 0; r < replicas.size(); ++r) result_.replicas[r].push_back(replicas[r]);
    if (options_.trace != nullptr) options_.trace->evaluation(replicas[0]);
    if (options_.on_evaluation && state_.layout.world.rank() == 0) options_.on_evaluation(replicas[0]);
    const std::string bad = nonfinite_metric(replicas, state_.scaler.dynamic());
    return bad.empty() || stop(fmt::format("{} after step {} is not finite", bad, result_.steps));
  }

  // By step, then rank.
  void collect_alarms() {
    if (!state_.guards.any()) return;
    record::Json mine = {{"count", state_.guards.count()}, {"alarms", record::Json::array()}};
    for (const record::Alarm& alarm : state_.guards.alarms())
      mine["alarms"].push_back(record::to_json(alarm));
    for (const std::string& text : state_.layout.world.allgather(mine.dump())) {
      const record::Json theirs = record::Json::parse(text);
      result_.alarm_count += theirs["count"].get<std::int64_t>();
      for (const record::Json& alarm : theirs["alarms"])
        result_.alarms.push_back(record::alarm_from_json(alarm));
    }
    std::stable_sort(result_.alarms.begin(), result_.alarms.end(),
                     [](const auto& a, const auto& b) { return a.step < b.step; });
    state_.guards.clear();
  }

  void finish() {
    collect_alarms();
    result_.replica_digests = state_.digests();
    result_.final_digest = result_.replica_digests[0];
    const auto mine = static_cast<char>(state_.session.nonfinite());
    std::vector<char> all(static_cast<std::size_t>(state_.layout.world.size()));
    state_.layout.world.allgather_equal(&mine, 1, all.data());
    for (const char bad : all) result_.nonfinite_state = result_.nonfinite_state || bad != 0;
  }

  TrainerState& state_;
  const RunOptions& options_;
  Progress& progress_;
  std::int64_t first_epoch_;
  StateWatch states_;
  record::RunResult result_;
  const Trajectory* golden_ = nullptr;   // that this run may meet
  std::vector<Trajectory::Mark> marks_;  // when keep_golden
  std::int64_t next_look_ = 0, gap_ = 1;
};

}  // namespace

record::RunResult run_loop(TrainerState& state, const RunOptions& options) {
  return Loop(state, options).run();
}

}  // namespace bitrift::train
