// From a spec to a data set and a model. Inside train/ only.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dataset/dataset.h"
#include "nn/layer/model.h"
#include "spec/training_spec.h"
#include "train/parallel/rank_layout.h"

namespace bitrift::train {

/// Loads the data set. Throws Error that begins with the place of the wrong key; Error(bad_input) if it has
/// fewer samples than a batch.
[[nodiscard]] std::shared_ptr<const nn::Dataset> load_data(const record::TrainingSpec& spec);

/// The layers of the spec's model for that data. Throws Error(bad_input) that begins with the place.
[[nodiscard]] std::vector<std::unique_ptr<nn::Layer>> make_layers(const record::TrainingSpec& spec,
                                                                  const nn::Dataset& data);

/// nn::cut_layers(). Throws Error(bad_input) that begins with the place.
[[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> cut_layers(const record::TrainingSpec& spec,
                                                                          const std::vector<double>& costs,
                                                                          int stages);

/// What the cut into stages balances, by layer: estimated costs, or rank 0's measured ones. Collective when
/// they are measured.
[[nodiscard]] std::vector<double> layer_costs(const record::TrainingSpec& spec, const nn::Dataset& data,
                                              const record::Parallel& parallel, const Layout& layout,
                                              const nn::Placement& placement);

/// This rank's stage. fresh: with initial values.
[[nodiscard]] nn::Stage build_stage(const record::TrainingSpec& spec, const nn::Dataset& data,
                                    const std::vector<double>& costs, const Layout& layout,
                                    const nn::Placement& placement, bool fresh);

/// The device of a rank: cpu, or cards in turn by rank. Throws Error(unsupported) when this LibTorch or this
/// machine has no CUDA.
[[nodiscard]] torch::Device choose_device(const record::Parallel& parallel, int rank);

}  // namespace bitrift::train
