// How single programs name tensors: the rules behind outline.h. Inside ckpt/ only.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/dialect/outline.h"

namespace bitrift::ckpt {

/// What a dialect tells of one dataset.
struct Place {
  std::string role = "unknown";
  std::string layer = {};
};

/// Datasets by path.
class Catalog {
 public:
  explicit Catalog(const std::vector<Dataset>& sorted) : datasets_(sorted) {}
  [[nodiscard]] const std::vector<Dataset>& datasets() const noexcept { return datasets_; }
  /// nullptr when there is none.
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

[[nodiscard]] inline bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// "a/b/c" -> {"a", "b", "c"}, cut at any of `separators`.
[[nodiscard]] std::vector<std::string_view> components(std::string_view path, const char* separators = "/");
/// What stands behind the last '/'.
[[nodiscard]] std::string_view leaf_of(std::string_view path);
/// What stands before the last '/'; "" when there is none.
[[nodiscard]] std::string_view parent_of(std::string_view path);
/// "conv2d_12" and "conv2d12" -> "conv2d"; a name of digits alone stays.
[[nodiscard]] std::string_view without_number(std::string_view name);

/// Each asks whether the file looks like its program's, and then gives one Place for each dataset.
[[nodiscard]] bool is_keras(const Catalog& catalog, const GroupTexts& texts, std::string& prefix);
[[nodiscard]] std::vector<Place> keras_places(const Catalog& catalog, const GroupTexts& texts,
                                              const std::string& prefix, std::vector<std::string>& order);
[[nodiscard]] bool is_keras_v3(const Catalog& catalog);
[[nodiscard]] std::vector<Place> keras_v3_places(const Catalog& catalog, const GroupTexts& texts);
[[nodiscard]] bool is_chainer(const Catalog& catalog);
[[nodiscard]] std::vector<Place> chainer_places(const Catalog& catalog);
[[nodiscard]] bool is_caffe(const Catalog& catalog);
[[nodiscard]] std::vector<Place> caffe_places(const Catalog& catalog);
/// PyTorch's names, ours among them (`ours`: a checkpoint of bitrift, where shapes decide nothing).
[[nodiscard]] std::vector<Place> pytorch_places(const Catalog& catalog, bool ours);

}  // namespace bitrift::ckpt
