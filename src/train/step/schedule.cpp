#include "train/step/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "core/error.h"

namespace bitrift::train {
namespace {

constexpr double kSmallestReduction = 1e-8;  // ReduceLROnPlateau's eps

bool more_is_better(const record::ScheduleSpec& spec) {
  return spec.monitor == record::Monitor::test_accuracy;
}

std::optional<double> monitored(const record::ScheduleSpec& spec, const record::Evaluation& evaluation) {
  if (spec.monitor == record::Monitor::train_loss) return evaluation.train_loss;
  return more_is_better(spec) ? evaluation.test_accuracy : evaluation.test_loss;
}

double cosine(const record::ScheduleSpec& spec, double base, std::int64_t step, std::int64_t total_steps) {
  const std::int64_t warmup = spec.warmup_steps;
  if (step < warmup) return base * (static_cast<double>(step + 1) / static_cast<double>(warmup + 1));
  const std::int64_t end = spec.steps != 0 ? spec.steps : total_steps;
  const double part =
      step >= end ? 1.0 : static_cast<double>(step - warmup) / static_cast<double>(end - warmup);
  return spec.min_learning_rate +
         (base - spec.min_learning_rate) * (0.5 * (1 + std::cos(std::numbers::pi * part)));
}

}  // namespace

void check_schedule(const record::TrainingSpec& spec, std::int64_t total_steps) {
  const record::ScheduleSpec& schedule = spec.schedule;
  if (schedule.min_learning_rate > spec.optimizer.learning_rate) {
    fail(ErrorCode::bad_input, "{}: {} is above the optimizer's learning_rate of {}; lower it",
         spec.where("schedule.min_learning_rate"), schedule.min_learning_rate, spec.optimizer.learning_rate);
  }
  const std::int64_t end = schedule.steps != 0 ? schedule.steps : total_steps;
  if (schedule.name == record::ScheduleName::cosine &&
      schedule.warmup_steps >= std::max<std::int64_t>(end, 1)) {
    fail(ErrorCode::bad_input,
         "{}: a warm-up of {} steps leaves none for a cosine that ends at step {}; shorten it",
         spec.where("schedule.warmup_steps"), schedule.warmup_steps, end);
  }
}

double initial_learning_rate(const record::ScheduleSpec& spec, double base) {
  // Without a warm-up, step 0 is at the cosine's top, wherever it ends.
  return spec.name == record::ScheduleName::cosine
             ? cosine(spec, base, 0, std::numeric_limits<std::int64_t>::max())
             : base;
}

void start_schedule(const record::ScheduleSpec& spec, double base, Progress& progress) {
  const double infinity = std::numeric_limits<double>::infinity();
  progress.learning_rate = initial_learning_rate(spec, base);
  progress.base_learning_rate = base;
  progress.plateau_best = more_is_better(spec) ? -infinity : infinity;
  progress.plateau_bad = 0;
  progress.plateau_cooldown = 0;
}

void after_step(const record::ScheduleSpec& spec, std::int64_t total_steps, Progress& progress) {
  if (spec.name != record::ScheduleName::cosine) return;
  progress.learning_rate = cosine(spec, progress.base_learning_rate, progress.step, total_steps);
}

void after_epoch(const record::ScheduleSpec& spec, Progress& progress) {
  if (spec.name == record::ScheduleName::step && progress.epoch % spec.every == 0)
    progress.learning_rate *= spec.gamma;
}

void after_evaluation(const record::ScheduleSpec& spec, const record::Evaluation& evaluation,
                      Progress& progress) {
  if (spec.name != record::ScheduleName::plateau) return;
  const std::optional<double> value = monitored(spec, evaluation);
  if (!value) return;
  const bool better = more_is_better(spec) ? *value > progress.plateau_best * (spec.threshold + 1.0)
                                           : *value < progress.plateau_best * (1.0 - spec.threshold);
  if (better) {
    progress.plateau_best = *value;
    progress.plateau_bad = 0;
  } else {
    // A flipped counter may hold the largest number, so it wraps instead of overflowing.
    progress.plateau_bad = static_cast<std::int64_t>(static_cast<std::uint64_t>(progress.plateau_bad) + 1);
  }
  if (progress.plateau_cooldown > 0) {
    progress.plateau_cooldown -= 1;
    progress.plateau_bad = 0;
  }
  if (progress.plateau_bad > spec.patience) {
    const double old = progress.learning_rate;
    const double reduced = std::max(old * spec.factor, spec.min_learning_rate);
    if (old - reduced > kSmallestReduction) progress.learning_rate = reduced;
    progress.plateau_cooldown = spec.cooldown;
    progress.plateau_bad = 0;
  }
}

}  // namespace bitrift::train
