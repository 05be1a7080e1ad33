// The layers of a file in order, and how a user chooses some of them (docs/roles.md, "Layers").
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ckpt/dialect/outline.h"

namespace bitrift::ckpt {

/// Layer names in the order in which usual models call them: names count naturally (layer2 before layer10),
/// embeddings and convolutions come before blocks, these before heads, a normalisation after what it
/// normalises. Pure; a name that the rules do not know is placed alphabetically.
[[nodiscard]] std::vector<std::string> in_model_order(const std::vector<std::string>& names);

class LayerList {
 public:
  struct Layer {
    std::string name;
    bool has_weight = false;  ///< holds a tensor of role `weight`: may be first, middle or last
  };

  LayerList() = default;
  explicit LayerList(const Outline& outline);
  [[nodiscard]] const std::vector<Layer>& layers() const noexcept { return layers_; }
  /// "stated": the file lists its layers; "natural": in_model_order().
  [[nodiscard]] const std::string& order() const noexcept { return order_; }
  /// The names that selectors denote, each `first`, `middle` or `last` (of the layers that hold a weight; of
  /// n, the middle one is number n / 2 from 0), the number of a layer from 0 or its name. `file` is for
  /// messages. Throws Error(not_found) for a selector that denotes none, Error(bad_input) for a file without
  /// layers.
  [[nodiscard]] std::set<std::string, std::less<>> resolve(const std::vector<std::string>& selectors,
                                                           const std::string& file) const;

 private:
  [[nodiscard]] const std::string& resolve_one(const std::string& selector, const std::string& file) const;
  std::vector<Layer> layers_;
  std::string order_ = "natural";
};

}  // namespace bitrift::ckpt
