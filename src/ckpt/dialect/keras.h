// Keras: whole models and weights in its HDF5 format (1.0 on). Its third version's .weights.h5: keras_v3.h.
#pragma once

#include <string>
#include <vector>

#include "ckpt/dialect/catalog.h"

namespace bitrift::ckpt {

/// Whether the file looks like one of Keras.
[[nodiscard]] bool is_keras(const Catalog& catalog, const GroupTexts& texts, std::string& prefix);
/// A Place for each dataset.
[[nodiscard]] std::vector<Place> keras_places(const Catalog& catalog, const GroupTexts& texts,
                                              const std::string& prefix, std::vector<std::string>& order);

}  // namespace bitrift::ckpt
