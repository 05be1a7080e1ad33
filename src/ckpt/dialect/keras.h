// Keras: whole models and weights in its HDF5 format (1.0 on), and the .weights.h5 of its third version.
#pragma once

#include <string>
#include <vector>

#include "ckpt/dialect/catalog.h"

namespace bitrift::ckpt {

/// is_...: whether the file looks like its program's; ..._places: a Place for each dataset.
[[nodiscard]] bool is_keras(const Catalog& catalog, const GroupTexts& texts, std::string& prefix);
[[nodiscard]] std::vector<Place> keras_places(const Catalog& catalog, const GroupTexts& texts,
                                              const std::string& prefix, std::vector<std::string>& order);
[[nodiscard]] bool is_keras_v3(const Catalog& catalog);
[[nodiscard]] std::vector<Place> keras_v3_places(const Catalog& catalog, const GroupTexts& texts);

}  // namespace bitrift::ckpt
