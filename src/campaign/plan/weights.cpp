#include "campaign/plan/weights.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>

#include "core/text/natural_order.h"

namespace bitrift::campaign {
namespace {

constexpr std::string_view model_name = "model";

bool is_weight(const ckpt::TensorInfo& tensor) {
  return tensor.role == "weight" && tensor.alias_of.empty() && !tensor.left_out;
}

}  // namespace

std::vector<WeightFolder> weight_folders(const ckpt::Reader& base) {
  std::map<std::string, WeightFolder> by_name;
  std::map<std::string, std::uint64_t> bytes;
  for (const ckpt::TensorInfo& tensor : base.tensors()) {
    if (!is_weight(tensor)) continue;
    const std::size_t cut = tensor.path.find('/');
    const std::string name = cut == std::string::npos ? "" : tensor.path.substr(0, cut);
    by_name[name].name = name;
    by_name[name].weights.push_back(tensor.path);
    bytes[name] += tensor.stored_bytes;
  }
  std::vector<WeightFolder> folders;
  for (auto& [name, folder] : by_name) {
    std::sort(folder.weights.begin(), folder.weights.end(), natural_less);
    folders.push_back(std::move(folder));
  }
  std::stable_sort(folders.begin(), folders.end(), [&](const WeightFolder& a, const WeightFolder& b) {
    if ((a.name == model_name) != (b.name == model_name)) return a.name == model_name;
    return bytes.at(a.name) > bytes.at(b.name);
  });
  return folders;
}

std::vector<std::string> used_weights(const ckpt::Reader& base, const std::set<std::string>& unused) {
  for (WeightFolder& folder : weight_folders(base)) {
    std::erase_if(folder.weights, [&](const std::string& name) { return unused.contains(name); });
    if (!folder.weights.empty()) return std::move(folder.weights);
  }
  return {};
}

}  // namespace bitrift::campaign
