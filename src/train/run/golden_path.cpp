#include "train/run/golden_path.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace bitrift::train {

record::Evaluation training_metrics(TrainerState& state, std::int64_t steps) {
  const Progress& progress = state.session().progress;
  record::Evaluation evaluation;
  if (steps > 0 && progress.cursor > 0) {
    const auto samples = static_cast<double>(progress.cursor);
    const std::int64_t so_far =
        record::steps_in_epoch(state.spec, progress.epoch, progress.cursor).value_or(1);
    evaluation.train_loss = progress.epoch_loss_sum / static_cast<double>(so_far);
    evaluation.train_accuracy = static_cast<double>(progress.epoch_correct) /
                                (samples * static_cast<double>(state.data->targets_per_sample()));
  }
  return evaluation;
}

void GoldenPath::mark(const StepMade& last, std::int64_t steps) {
  if (!keeps_ || marks_.size() >= static_cast<std::size_t>(steps)) return;
  std::vector<std::string> digests(state_.map.hosts().size());
  state_.strategy().for_each_replica([&](int replica) {
    digests[static_cast<std::size_t>(replica * state_.map.stages() + state_.layout().stage())] =
        mark_digest(state_.session(), state_.spec.schedule);
  });
  marks_.push_back({last.loss, last.correct, std::move(digests)});
}

// The loss is the same on all ranks and cheap to compare; a state that differs although the losses agree is
// compared less and less often.
bool GoldenPath::meets(RunProgress& run, const Terms& terms) {
  const std::int64_t steps = run.result.steps;
  const auto kept = state_.golden.find(terms.order);
  const bool follows = terms.early_end && !keeps_ && !terms.steps;
  if (!follows || kept == state_.golden.end()) return false;
  order_ = terms.order;
  const Trajectory& golden = kept->second;
  const auto at = static_cast<std::size_t>(steps);
  if (at > golden.marks.size() || steps < run.next_look) return false;
  // A run that still has to lose a rank has not returned for good.
  for (const record::ProcessFault& fault : state_.kill_point.faults()) {
    if (fault.step >= steps) return false;
  }
  if (state_.links.flips.due_after(steps) || state_.flips.due_after(steps)) return false;
  // The cost of failed links is measured to the end.
  if (state_.links.failures.any()) return false;
  const Trajectory::Mark& mark = golden.marks[at - 1];
  if (std::bit_cast<std::uint64_t>(mark.loss) != std::bit_cast<std::uint64_t>(run.last.loss)) return false;
  bool equal = mark.digests.size() == state_.map.hosts().size();
  state_.strategy().for_each_replica([&](int replica) {
    const auto seat = static_cast<std::size_t>(replica * state_.map.stages() + state_.layout().stage());
    equal = equal && mark_digest(state_.session(), state_.spec.schedule) == mark.digests[seat];
  });
  const auto same = static_cast<char>(equal);
  std::vector<char> all(static_cast<std::size_t>(state_.layout().world.size()));
  state_.layout().world.allgather_equal(&same, 1, all.data());
  if (std::all_of(all.begin(), all.end(), [](char one) { return one != 0; })) return true;
  run.next_look = steps + (run.gap *= 2);
  return false;
}

// Only the training metrics of the current epoch have addends of this run's own. Nothing is left to run.
void GoldenPath::follow(const StepMade& last, record::RunResult& result) {
  Progress& progress = state_.session().progress;
  const Trajectory& golden = state_.golden.at(order_);
  record::Evaluation training = last.training;
  result.returned_step = result.steps;
  while (true) {
    const std::size_t next = result.replicas[0].size();
    if (next < golden.result.replicas[0].size() && golden.result.replicas[0][next].step == result.steps) {
      for (std::size_t r = 0; r < result.replicas.size(); ++r) {
        record::Evaluation evaluation = golden.result.replicas[r][next];
        evaluation.train_loss = training.train_loss;
        evaluation.train_accuracy = training.train_accuracy;
        result.replicas[r].push_back(evaluation);
      }
      progress.cursor = progress.epoch_correct = 0;
      progress.epoch_loss_sum = 0;
    }
    if (static_cast<std::size_t>(result.steps) == golden.marks.size()) break;
    const Trajectory::Mark& mark = golden.marks[static_cast<std::size_t>(result.steps++)];
    progress.cursor += state_.spec.batch_size;
    progress.epoch_loss_sum += mark.loss;
    progress.epoch_correct += mark.correct;
    training = training_metrics(state_, result.steps);
  }
  result.test_targets = golden.result.test_targets;
  result.last_loss = golden.result.last_loss;
  result.replica_digests = golden.result.replica_digests;
  result.final_digest = golden.result.final_digest;
  result.nonfinite_state = golden.result.nonfinite_state;
}

// A run with alarms cannot be followed: those after the return would be missing. If the team may lose
// members, each must know the marks of all seats.
void GoldenPath::keep(const record::RunResult& result, std::uint64_t order) {
  state_.golden.erase(order);
  const bool usable = result.status == record::RunStatus::done && result.alarm_count == 0 &&
                      result.steps > 0 && state_.session().progress.cursor == 0;
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
  state_.golden.emplace(order, Trajectory{std::move(marks_), result});
}

}  // namespace bitrift::train
