#include "nn/layer/format_name.h"

#include "core/error.h"

namespace bitrift::nn {

const char* format_name(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat64:
      return "float64";
    case torch::kFloat32:
      return "float32";
    case torch::kFloat16:
      return "float16";
    case torch::kBFloat16:
      return "bfloat16";
    case torch::kInt64:
      return "int64";
    default:
      fail(ErrorCode::internal, "no checkpoint holds tensors of type {}", torch::toString(type));
  }
}

}  // namespace bitrift::nn
