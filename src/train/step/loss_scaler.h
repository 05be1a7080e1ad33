// Loss scaling for 16-bit gradients, as torch.amp.GradScaler. Inside train/ only.
#pragma once

#include <vector>

#include "spec/training_spec.h"
#include "train/step/counters.h"
#include "train/step/optimizer.h"

namespace bitrift::train {

/// Off, fixed or dynamic. Its state is in Progress: loss_scale and growth_tracker. The scale is used
/// rounded to float32. Dynamic: begins at 65536, doubles after 2000 good steps in a row, halves after a bad
/// one.
///
/// A step: scale() each micro-batch's loss and go backward; unscale() the reduced gradients, before their
/// norm is taken; all ranks agree whether any of them found a bad gradient; then step only when none did;
/// update().
class LossScaler {
 public:
  explicit LossScaler(const record::TrainingSpec& spec);

  [[nodiscard]] bool active() const noexcept { return kind_ != Kind::off; }
  [[nodiscard]] bool dynamic() const noexcept { return kind_ == Kind::dynamic; }
  /// The initial Progress::loss_scale; 1 when off.
  [[nodiscard]] double initial_scale() const noexcept { return initial_; }

  /// loss: (), any floating type. A 16-bit loss becomes float32, in which 65536 times the loss can still be
  /// represented. Off: the loss itself.
  [[nodiscard]] torch::Tensor scale(const torch::Tensor& loss, const Progress& progress) const;
  /// Multiplies all gradients, of one type and device, by 1/scale, and returns whether this rank's were all
  /// finite. The reciprocal is taken in double and rounded to float32. Gradients are multiplied even if the
  /// result is false: drop them then. Parameters without a gradient are left out. Off: returns true without
  /// looking at the gradients.
  [[nodiscard]] bool unscale(const std::vector<Optimizer::Parameter>& parameters,
                             const Progress& progress) const;
  /// found_bad: the decision of all ranks, true when any rank's unscale() returned false. Only dynamic scales
  /// change; growth beyond float32's range does not happen.
  void update(bool found_bad, Progress& progress) const;

 private:
  enum class Kind { off, fixed, dynamic };
  Kind kind_ = Kind::off;
  double initial_ = 1;
};

}  // namespace bitrift::train
