// The progress of a run. Inside train/ only.
#pragma once

#include <cstdint>
#include <limits>

namespace bitrift::train {

/// What a guard knows of the values so far.
struct RecentMean {
  std::int64_t count = 0;  ///< values in the mean so far
  double mean = 0;         ///< of the last values
};

/// Its name in a checkpoint: progress/<name>. The values that the last groups describe exist only when the
/// spec names a schedule or a loss scale that uses them.
struct Progress {
  std::int64_t epoch = 0;   ///< epochs completed; also the number of the current one
  std::int64_t step = 0;    ///< optimizer steps of the whole training
  std::int64_t cursor = 0;  ///< samples consumed in the current epoch
  double learning_rate = 0;
  double epoch_loss_sum = 0;       ///< over the steps of the current epoch
  std::int64_t epoch_correct = 0;  ///< right answers among those `cursor` samples

  double base_learning_rate = 0;  ///< cosine: the peak

  double plateau_best = std::numeric_limits<double>::infinity();  ///< plateau: best value of the metric; -inf
                                                                  ///< when more is better
  std::int64_t plateau_bad = 0;                                   ///< plateau: evaluations since then
  std::int64_t plateau_cooldown = 0;                              ///< plateau: evaluations still to wait

  double loss_scale = 1;            ///< losses are multiplied by it before the backward pass
  std::int64_t growth_tracker = 0;  ///< dynamic loss scale: steps since it last changed

  RecentMean guard_losses = {};  ///< guard loss_spike: losses
  RecentMean guard_norms = {};   ///< guard gradient_jump: norms of gradients
};

}  // namespace bitrift::train
