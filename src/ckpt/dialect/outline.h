// The purpose of a file's tensors, inferred from its names (docs/roles.md): which program wrote it, and the
// role and the layer of each tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ckpt/dialect/catalog.h"

namespace bitrift::ckpt {

struct Outline {
  std::string layout;               ///< one of layout_names()
  std::vector<std::string> roles;   ///< of each dataset, as given
  std::vector<std::string> layers;  ///< of each dataset; "": belongs to none
  std::vector<std::string> order;   ///< layers in the order that the file states; empty: it states none
};

/// `datasets` is sorted by path (bytewise). `written`: their paths in the order of the program that wrote the
/// file; empty if the file does not say. Never fails: a tensor that fits no rule has the role `unknown`.
[[nodiscard]] Outline outline_of(const std::vector<Dataset>& datasets, const GroupTexts& texts,
                                 const std::vector<std::string>& written = {});

/// bitrift, keras, keras-v3, chainer, caffe, flax, pytorch, unknown.
[[nodiscard]] const std::vector<std::string>& layout_names();

}  // namespace bitrift::ckpt
