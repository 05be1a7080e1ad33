// The numbers that the steps of a run compute, as far as faults can strike them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/fault/compute_fault.h"
#include "record/json/json.h"

namespace bitrift::record {

/// The tensors of each step of a run. They depend on the model, the precision, the batch and the layout.
struct ComputeMap {
  /// A tensor that a fault can name.
  struct Tensor {
    std::string name;            ///< of the layer, or the parameter's key
    std::int64_t elements = 0;   ///< of a layer's output: those of one micro-batch
    std::string dtype;           ///< "float32"
    bool differentiable = true;  ///< a layer's output: whether it has a gradient
    /// A layer's forward passes in one step on one replica, which is the number of micro-batches unless the
    /// model uses the layer more than once. 1 for a parameter.
    std::int64_t passes = 1;
    bool trained = true;  ///< a parameter: whether it has a gradient and an update; else it is frozen
    bool operator==(const Tensor&) const = default;
  };
  std::int64_t steps_per_epoch = 0, replicas = 1;
  /// At the end of an epoch; they compute tensors of other sizes, and no fault of a campaign begins in them.
  std::int64_t short_steps = 0;
  bool may_skip = false;                ///< whether loss scaling may leave a step without an update
  std::vector<Tensor> layers = {};      ///< their outputs, in the model's order
  std::vector<Tensor> parameters = {};  ///< in the model's order
  bool operator==(const ComputeMap&) const = default;

  /// The tensors of a site, in the model's order.
  [[nodiscard]] std::vector<Tensor> at(ComputeSite site) const;
  [[nodiscard]] std::vector<std::string> names_at(ComputeSite site) const;
};

/// {"steps_per_epoch", "replicas", "short_steps", "may_skip", "layers": [{"name", "elements", "dtype",
/// "differentiable", "passes"}], "parameters": [{"name", "elements", "dtype", "trained"}]}
[[nodiscard]] Json to_json(const ComputeMap& map);
/// Throws Error(bad_file) for anything else.
[[nodiscard]] ComputeMap compute_map_from_json(const Json& value);

/// Throws Error(bad_input) that says what exists when the fault names a tensor, replica, micro-batch, element
/// or bit that does not, or more elements than there are, or than it can strike without returning to its
/// first, whose bit would flip back.
void check_exists(const ComputeFault& fault, const ComputeMap& map);

}  // namespace bitrift::record
