// The datasets of a file by path, and how paths are split. Inside ckpt/ only.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace bitrift::ckpt {

struct Dataset {
  std::string path;  ///< without leading '/'
  std::vector<std::uint64_t> shape;
  std::string dtype = "float32";  ///< as TensorInfo has it
};

/// The texts of an attribute of a group ("" is the root group): one, a list, or none when it is absent. Only
/// for groups that hold a dataset.
using GroupTexts =
    std::function<std::vector<std::string>(const std::string& group, const std::string& attribute)>;

constexpr std::string_view unknown_role = "unknown";

/// The role and the layer of one dataset, as a dialect sees them.
struct Place {
  std::string role = "unknown";
  std::string layer = {};
};

/// Datasets by path.
class Catalog {
 public:
  explicit Catalog(const std::vector<Dataset>& sorted) : datasets_(sorted) {}
  [[nodiscard]] const std::vector<Dataset>& datasets() const noexcept { return datasets_; }
  /// nullptr if the path does not exist.
  [[nodiscard]] const Dataset* find(std::string_view path) const {
    const auto at =
        std::lower_bound(datasets_.begin(), datasets_.end(), path,
                         [](const Dataset& one, std::string_view name) { return one.path < name; });
    return at != datasets_.end() && at->path == path ? &*at : nullptr;
  }
  /// Whether some path begins with `group` and a slash.
  [[nodiscard]] bool has_group(const std::string& group) const {
    const std::string prefix = group + '/';
    const auto at =
        std::lower_bound(datasets_.begin(), datasets_.end(), prefix,
                         [](const Dataset& one, const std::string& name) { return one.path < name; });
    return at != datasets_.end() && at->path.starts_with(prefix);
  }

 private:
  const std::vector<Dataset>& datasets_;
};

template <std::size_t N>
[[nodiscard]] bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

[[nodiscard]] inline bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// "a/b/c" -> {"a", "b", "c"}, split at any of `separators`.
[[nodiscard]] std::vector<std::string_view> components(std::string_view path, const char* separators = "/");
[[nodiscard]] std::string lower(std::string_view text);
/// The part after the last '/'.
[[nodiscard]] std::string_view leaf_of(std::string_view path);
/// The part before the last '/'; "" if there is none.
[[nodiscard]] std::string_view parent_of(std::string_view path);
/// "conv2d_12" and "conv2d12" -> "conv2d"; a name of digits only is kept.
[[nodiscard]] std::string_view without_number(std::string_view name);
/// Whether the last name of a layer, such as "block/BatchNorm_0" or "encoder.ln_1", is that of a
/// normalisation.
[[nodiscard]] bool names_a_norm(std::string_view layer);

}  // namespace bitrift::ckpt
