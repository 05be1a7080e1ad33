#include "sink/image.h"

#include <algorithm>

namespace bitrift::ckpt {

const Image::Tensor* Image::find(std::string_view path) const noexcept {
  const auto found =
      std::lower_bound(tensors.begin(), tensors.end(), path,
                       [](const Tensor& tensor, std::string_view wanted) { return tensor.path < wanted; });
  return found != tensors.end() && found->path == path ? &*found : nullptr;
}

}  // namespace bitrift::ckpt
