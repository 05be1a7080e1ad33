// Keras 3: .weights.h5, in which variables have numbers instead of names.
#pragma once

#include <vector>

#include "ckpt/dialect/catalog.h"

namespace bitrift::ckpt {

/// Whether the file looks like one of Keras.
[[nodiscard]] bool is_keras_v3(const Catalog& catalog);
/// A Place for each dataset.
[[nodiscard]] std::vector<Place> keras_v3_places(const Catalog& catalog, const GroupTexts& texts);

}  // namespace bitrift::ckpt
