// A step of data-parallel training: computing, then the allreduce.
#pragma once

#include <optional>

namespace bitrift::comm {

/// A user's description of a step.
struct StepCost {
  double compute = 0;  ///< seconds for which each chip computes
  double overlap = 0;  ///< the part of the allreduce, 0 to 1, that can run while chips still compute
};

/// Gradients exist only in the backward pass. It takes twice the operations of the forward pass.
inline constexpr double backward_part = 2.0 / 3;

/// The result of the model. Every chip computes on a batch of the same size, however many chips are alive.
struct TrainingStep {
  double compute = 0, allreduce = 0;  ///< seconds
  double hidden = 0;                  ///< seconds of the allreduce that run while chips compute

  [[nodiscard]] double seconds() const noexcept { return compute + allreduce - hidden; }
  /// Steps a second: multiplied by a chip's batch, the throughput of each live chip.
  [[nodiscard]] double rate() const noexcept { return 1 / seconds(); }
};

/// allreduce: seconds. The hidden part is at most backward_part of the computing. Throws Error(bad_input) for
/// times that are negative or not finite, an overlap outside 0 to 1, and a step without any time.
[[nodiscard]] TrainingStep training_step(const StepCost& cost, double allreduce);

/// The cost of failures relative to the whole mesh, as fractions.
struct FailureLoss {
  double chips = 0;       ///< that are dead
  double throughput = 0;  ///< samples a second of all chips together
};
/// step: with `live` of `chips` chips; whole: with all of them.
[[nodiscard]] FailureLoss failure_loss(const TrainingStep& step, int live, const TrainingStep& whole,
                                       int chips);

/// A network whose gradients are often reduced, in fp32.
struct KnownNetwork {
  const char* name;
  double bytes;    ///< of its gradients
  double compute;  ///< seconds a step, an assumption explained in docs/mesh-bound.md
};
inline constexpr KnownNetwork known_networks[] = {{"ResNet-50", 102e6, 0.016}, {"BERT-large", 1.34e9, 0.17}};

/// The assumed time for gradients of exactly this many bytes.
[[nodiscard]] std::optional<double> assumed_compute(double bytes);

}  // namespace bitrift::comm
