// How the learning rate changes: arithmetic on Progress, without tensors. Inside train/ only.
#pragma once

#include <cstdint>

#include "record/run.h"
#include "spec/training_spec.h"
#include "train/step/counters.h"

namespace bitrift::train {

/// Throws Error(bad_input), naming the key, when a schedule cannot be followed: a cosine that ends within its
/// warm-up, a lowest learning rate above the first. total_steps: optimizer steps in the spec's epochs.
void check_schedule(const record::TrainingSpec& spec, std::int64_t total_steps);

/// The learning rate of step 0. Only cosine's warm-up makes it differ from base.
[[nodiscard]] double initial_learning_rate(const record::ScheduleSpec& spec, double base);

/// Sets the initial values of a run: learning_rate, base_learning_rate and the plateau's members.
void start_schedule(const record::ScheduleSpec& spec, double base, Progress& progress);

/// After an optimizer step that progress.step already counts. cosine: sets progress.learning_rate to that of
/// the step of this number, counted from 0,
///   s < w:  base * ((s + 1) / (w + 1))
///   else:   min + (base - min) * (0.5 * (1 + cos(pi * t))),  t = (s - w) / (T - w), at most 1
/// in double and in this order, with w = warmup_steps, base = progress.base_learning_rate and T = spec.steps,
/// or total_steps when that is 0. It is a function of step and base alone, so a flip in the learning rate
/// lasts one step. Other schedules: nothing.
void after_step(const record::ScheduleSpec& spec, std::int64_t total_steps, Progress& progress);

/// After an epoch that progress.epoch already counts. step: multiplies the learning rate by gamma when the
/// epoch is a multiple of `every` (torch.optim.lr_scheduler.StepLR, its recursive form). Others: nothing.
void after_epoch(const record::ScheduleSpec& spec, Progress& progress);

/// After the evaluation of a completed epoch, and no other: a run that stops within an epoch must not count
/// its last evaluation, or resuming would differ from not stopping. plateau: the arithmetic of
/// torch.optim.lr_scheduler.ReduceLROnPlateau with threshold_mode "rel" and eps 1e-8; mode "max" for
/// test_accuracy, else "min". NaN is never better. Does nothing without the metric (no step was taken). Every
/// rank must be given the same evaluation.
void after_evaluation(const record::ScheduleSpec& spec, const record::Evaluation& evaluation,
                      Progress& progress);

}  // namespace bitrift::train
