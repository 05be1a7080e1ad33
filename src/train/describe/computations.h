// The numbers that the steps of a run compute, for people who choose which of them to strike.
#pragma once

#include "record/fault/compute_map.h"
#include "spec/training_spec.h"

namespace bitrift::nn {
class Dataset;
}

namespace bitrift::train {

/// The tensors of each step in which faults can strike. `data`: as returned by load_runnable() for both.
/// Under autocast each layer takes one sample of zeros, because only a forward pass tells the types of its
/// outputs; else no tensor is built.
[[nodiscard]] record::ComputeMap computations_of(const record::TrainingSpec& spec,
                                                 const record::Parallel& parallel, const nn::Dataset& data);

}  // namespace bitrift::train
