// Data sets by their names.
#pragma once

#include <filesystem>
#include <memory>

#include "dataset/dataset.h"

namespace bitrift::nn {

/// Where a data set is: `path` when given; else NAME in the folder of the environment variable
/// BITRIFT_DATA_DIR, or in the data/ folder of the source tree; fashion-mnist, when that has none, where
/// Debian's package dataset-fashion-mnist puts it. Throws Error(bad_input) for an unknown name, and where a
/// path is needed and missing.
[[nodiscard]] std::filesystem::path dataset_folder(const DataDescription& description);

/// Loads and checks a data set. Throws Error(bad_input) for a description that makes no sense (one line that
/// names the key), Error(not_found) that says how to get the data, and Error(bad_file | unsupported | io)
/// that names the file and what is wrong with it.
[[nodiscard]] std::unique_ptr<Dataset> load_dataset(const DataDescription& description);

}  // namespace bitrift::nn
