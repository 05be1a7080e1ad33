#include "train/state/checkpoint_clock.h"

#include <algorithm>
#include <numeric>

#include "core/number/median.h"

namespace bitrift::train {
namespace {

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

double mean_of(const std::vector<double>& values) { return sum(values) / static_cast<double>(values.size()); }

double mean_of_last(const std::vector<double>& values) {
  constexpr std::ptrdiff_t most = 8;
  const auto count = std::min(most, static_cast<std::ptrdiff_t>(values.size()));
  return count == 0 ? 0
                    : std::accumulate(values.end() - count, values.end(), 0.0) / static_cast<double>(count);
}

record::Json summary(std::vector<double> values) {
  const double total = sum(values);  // in the order of the saves, which median() changes
  return {{"median", median(values)}, {"max", std::ranges::max(values)}, {"total", total}};
}

}  // namespace

void CheckpointClock::step_done(double now) {
  if (first_step_) {
    steps_ += 1;
  } else {
    first_step_ = now;
  }
}

void CheckpointClock::saved(double began, double returned) { saves_.push_back({began, returned}); }

void CheckpointClock::durable(double now) {
  const std::lock_guard lock(mutex_);
  durable_.push_back(now);
}

std::vector<double> CheckpointClock::blocking() const {
  std::vector<double> seconds;
  for (const Save& save : saves_) seconds.push_back(save.returned - save.began);
  return seconds;
}

std::vector<double> CheckpointClock::persist() const {
  const std::lock_guard lock(mutex_);
  std::vector<double> seconds;
  for (std::size_t i = 0; i < std::min(durable_.size(), saves_.size()); ++i)
    seconds.push_back(std::max(0.0, durable_[i] - saves_[i].returned));
  return seconds;
}

std::vector<double> CheckpointClock::typical_costs() const {
  // In the background, two buffers are used in turn.
  const std::size_t cold = policy_.mode == record::SaveMode::async ? 2 : 1;
  std::vector<double> warm, free, all = blocking();
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < saves_.size(); ++i) {
    const bool waited = policy_.mode == record::SaveMode::async && i > 0 && i - 1 < durable_.size() &&
                        durable_[i - 1] > saves_[i].began;
    if (waited) continue;
    free.push_back(all[i]);
    if (i >= cold) warm.push_back(all[i]);
  }
  return warm.empty() ? free : warm;
}

double CheckpointClock::mean_step(double until) const {
  if (!first_step_ || steps_ == 0) return 0;
  return (until - *first_step_ - sum(blocking())) / static_cast<double>(steps_);
}

ChosenInterval CheckpointClock::choose() {
  ChosenInterval chosen;
  chosen.step_seconds = mean_step(saves_.back().returned);
  chosen.cost = mean_of_last(typical_costs());
  const double mean = policy_.mean_time_between_failures.value_or(0);
  if (policy_.mode == record::SaveMode::async) {
    chosen.persist = mean_of_last(persist());
    chosen.seconds = record::asynchronous_interval(chosen.cost, chosen.persist, mean);
  } else {
    chosen.seconds = record::daly_interval(chosen.cost, mean);
  }
  chosen.steps = record::steps_of_interval(chosen.seconds, chosen.step_seconds);
  chosen_ = chosen;
  return chosen;
}

std::optional<record::Json> CheckpointClock::report() const {
  if (saves_.empty()) return std::nullopt;
  record::Json value = {{"written", saves_.size()}, {"blocking", summary(blocking())}};
  const std::vector<double> until_there = persist();
  if (!until_there.empty()) value["persist"] = summary(until_there);
  if (!chosen_) return value;
  value["interval"] = {{"steps", chosen_->steps},
                       {"seconds", chosen_->seconds},
                       {"step", chosen_->step_seconds},
                       {"cost", chosen_->cost},
                       {"mean_time_between_failures", policy_.mean_time_between_failures.value_or(0)}};
  if (policy_.mode == record::SaveMode::async) value["interval"]["persist"] = chosen_->persist;
  return value;
}

record::Json CheckpointClock::so_far(double now) const {
  record::Json value = {{"written", saves_.size()}};
  if (const double step = mean_step(now); step > 0) value["step_seconds"] = step;
  if (!saves_.empty()) value["block_seconds"] = mean_of(blocking());
  if (const std::vector<double> until_there = persist(); !until_there.empty())
    value["persist_seconds"] = mean_of(until_there);
  return value;
}

}  // namespace bitrift::train
