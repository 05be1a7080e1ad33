// How large the outputs of layers have been (docs/training.md, "Guards"). Inside train/ only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nn/layer/pass.h"

namespace bitrift::train {

/// The guard activation_range: compares the outputs of each layer with the largest magnitude that they had in
/// earlier steps of this process. A step with an output beyond the limit does not widen the layer's range.
class OutputRanges final : public nn::OutputTap {
 public:
  struct Range {
    double before = 0;      ///< in earlier steps
    double now = 0;         ///< in the current one
    bool exceeded = false;  ///< in the current one
  };
  struct Finding {
    std::string layer;
    double value, limit;
  };
  /// factor: of the largest magnitude so far, above 1. clip: outputs beyond the limit are set to it, with
  /// their sign, and NaN to 0; the gradients of these are 0.
  OutputRanges(double factor, bool clip) : factor_(factor), clip_(clip) {}

  [[nodiscard]] torch::Tensor output(const std::string& layer, torch::Tensor y) override;
  /// Ends the step. Returns the outputs that were beyond their limits in it, in order.
  [[nodiscard]] std::vector<Finding> end_step();

  /// By layer. Knows nothing at first, so that the first step raises no alarm.
  std::map<std::string, Range> ranges;

 private:
  double factor_;
  bool clip_;
  std::vector<Finding> found_;
};

}  // namespace bitrift::train
