#include "campaign/plan/weights.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "core/text/natural_order.h"

namespace bitrift::campaign {
namespace {

bool is_weight(const ckpt::TensorInfo& tensor) {
  return tensor.role == "weight" && tensor.alias_of.empty() && !tensor.left_out;
}

}  // namespace

std::string model_folder(const ckpt::Reader& base) {
  std::map<std::string, std::uint64_t> bytes;
  for (const ckpt::TensorInfo& tensor : base.tensors()) {
    const std::size_t cut = tensor.path.find('/');
    if (is_weight(tensor))
      bytes[cut == std::string::npos ? "" : tensor.path.substr(0, cut)] += tensor.stored_bytes;
  }
  if (bytes.contains("model")) return "model";
  const auto most = std::max_element(bytes.begin(), bytes.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? "" : most->first;
}

std::vector<std::string> model_weights(const ckpt::Reader& base) {
  const std::string folder = model_folder(base);
  std::vector<std::string> weights;
  for (const ckpt::TensorInfo& tensor : base.tensors()) {
    if (is_weight(tensor) && (folder.empty() || tensor.path.starts_with(folder + '/')))
      weights.push_back(tensor.path);
  }
  std::sort(weights.begin(), weights.end(), natural_less);
  return weights;
}

}  // namespace bitrift::campaign
