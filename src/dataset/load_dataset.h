// Data sets by their names.
#pragma once

#include <filesystem>
#include <memory>

#include "dataset/dataset.h"
#include "spec/training_parts.h"

namespace bitrift::nn {

/// The place of a data set: `path` if given; otherwise NAME in the folder of the environment variable
/// BITRIFT_DATA_DIR, or in the data/ folder of the source tree or of the wheel; fashion-mnist, if that has
/// none, in the place of Debian's package dataset-fashion-mnist.
[[nodiscard]] std::filesystem::path dataset_folder(const record::DataSpec& spec);

/// Loads and checks a data set for a model that asks for this many classes, or for samples of this much
/// context. Throws Error(bad_input) for a spec that does not fit the data (one line that names the key),
/// Error(not_found) that says how to get the data, and Error(bad_file | unsupported | io) that names the file
/// and the problem.
[[nodiscard]] std::unique_ptr<Dataset> load_dataset(const record::DataSpec& spec,
                                                    const record::ModelSpec& model = {});

}  // namespace bitrift::nn
