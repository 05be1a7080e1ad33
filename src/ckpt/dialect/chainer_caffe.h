// Chainer's serializers, and Caffe's .caffemodel.h5 and .solverstate.h5.
#pragma once

#include <vector>

#include "ckpt/dialect/catalog.h"

namespace bitrift::ckpt {

/// is_...: whether the file looks like that of the program; ..._places: a Place for each dataset.
[[nodiscard]] bool is_chainer(const Catalog& catalog);
[[nodiscard]] std::vector<Place> chainer_places(const Catalog& catalog);
[[nodiscard]] bool is_caffe(const Catalog& catalog);
[[nodiscard]] std::vector<Place> caffe_places(const Catalog& catalog);

}  // namespace bitrift::ckpt
