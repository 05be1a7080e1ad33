#include "ckpt/dialect/layers.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "ckpt/dialect/catalog.h"
#include "core/error.h"
#include "core/text/natural_order.h"

namespace bitrift::ckpt {
namespace {

constexpr int kPlain = 30;  // for names that say nothing about their place
constexpr int kConvolution = 20;
constexpr int kNorm = 50;
constexpr int kHead = 70;

/// The usual place of a module among its siblings, by its name in lower case without a number.
int usual_rank(std::string_view stem) {
  static const std::map<std::string_view, int> ranks = {// what takes the input
                                                        {"stem", 8},
                                                        {"conv_stem", 8},
                                                        {"patch_embed", 9},
                                                        {"embeddings", 9},
                                                        {"embedding", 9},
                                                        {"embed", 9},
                                                        {"embed_tokens", 9},
                                                        {"tok_embeddings", 9},
                                                        {"word_embeddings", 9},
                                                        {"wte", 9},
                                                        {"wpe", 10},
                                                        {"position_embeddings", 10},
                                                        {"pos_embed", 10},
                                                        {"token_type_embeddings", 11},
                                                        {"conv", kConvolution},
                                                        {"convolution", kConvolution},
                                                        {"conv1d", kConvolution},
                                                        {"conv2d", kConvolution},
                                                        {"conv3d", kConvolution},
                                                        {"encoder", 28},
                                                        {"transform", 28},
                                                        // inside a transformer's block
                                                        {"input_layernorm", 31},
                                                        {"attention_norm", 31},
                                                        {"self", 31},
                                                        {"attn", 32},
                                                        {"attention", 32},
                                                        {"self_attn", 32},
                                                        {"self_attention", 32},
                                                        {"query", 32},
                                                        {"key", 33},
                                                        {"value", 34},
                                                        {"q_proj", 32},
                                                        {"k_proj", 33},
                                                        {"v_proj", 34},
                                                        {"qkv", 32},
                                                        {"proj", 35},
                                                        {"out", 35},
                                                        {"out_proj", 35},
                                                        {"o_proj", 35},
                                                        {"post_attention_layernorm", 33},
                                                        {"pre_feedforward_layernorm", 33},
                                                        {"ffn_norm", 33},
                                                        {"mlp", 34},
                                                        {"feed_forward", 34},
                                                        {"gate_proj", 32},
                                                        {"up_proj", 33},
                                                        {"down_proj", 35},
                                                        {"post_feedforward_layernorm", 36},
                                                        {"intermediate", 34},
                                                        {"output", 36},
                                                        {"decoder", 40},
                                                        // the layers of the output
                                                        {"dense", 45},
                                                        {"aux", 60},
                                                        {"pooler", 60},
                                                        {"fc", kHead},
                                                        {"ip", kHead},
                                                        {"linear", kHead},
                                                        {"classifier", kHead},
                                                        {"head", kHead},
                                                        {"heads", kHead},
                                                        {"lm_head", kHead}};
  const auto at = ranks.find(stem);
  return at == ranks.end() ? kPlain : at->second;
}

bool is_norm(std::string_view stem) {
  return stem.find("norm") != std::string_view::npos || stem == "bn" || stem == "ln" || stem == "gn" ||
         stem == "scale" || stem == "ln_f";
}

/// One module in the tree of names, with the information in its own name.
struct Node {
  explicit Node(std::string_view text) : name(text) {
    std::transform(name.begin(), name.end(), std::back_inserter(stem),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::string_view short_stem = without_number(stem);
    number = stem.substr(short_stem.size());
    if (number.starts_with('_')) number.erase(0, 1);
    stem = short_stem;
  }
  std::string name, stem, number;
  bool is_layer = false;  ///< a layer's name ends here
  std::string layer;
  std::map<std::string, std::unique_ptr<Node>, std::less<>> children;
};

/// Place among siblings: rank, then number where the rank pairs modules by it, then norms after the rest.
struct Key {
  int rank = kPlain;
  std::string number;
  bool behind = false;
  std::string_view name;
};

bool stands_before(const Key& a, const Key& b) {
  if (a.rank != b.rank) return a.rank < b.rank;
  if (a.number != b.number) return natural_less(a.number, b.number);
  if (a.behind != b.behind) return b.behind;
  return natural_less(a.name, b.name);
}

bool has_sibling(const Node& parent, int rank, const std::string& number) {
  return std::any_of(parent.children.begin(), parent.children.end(), [&](const auto& child) {
    return usual_rank(child.second->stem) == rank && child.second->number == number;
  });
}

/// bn2 comes after conv2 or, if there is none, after fc2; ln_1 and ln_2 before the branches of a block. Names
/// such as post_attention_layernorm say where they stand.
Key key_of(const Node& parent, const Node& child) {
  Key key{usual_rank(child.stem), "", false, child.name};
  if (key.rank == kConvolution || key.rank == kHead) key.number = child.number;
  if (!is_norm(child.stem) || key.rank != kPlain) return key;
  for (const int partner : {kConvolution, kHead}) {
    if (partner == kHead && child.number.empty()) break;  // a last norm comes before the head
    if (has_sibling(parent, partner, child.number)) return {partner, child.number, true, child.name};
  }
  if (has_sibling(parent, usual_rank("attn"), "") && child.number == "1") return {31, "", false, child.name};
  if (has_sibling(parent, usual_rank("attn"), "") && child.number == "2") return {33, "", false, child.name};
  return {kNorm, child.number, true, child.name};
}

void collect(const Node& node, std::vector<std::string>& names) {
  if (node.is_layer) names.push_back(node.layer);
  std::vector<std::pair<Key, const Node*>> order;
  for (const auto& [name, child] : node.children) order.emplace_back(key_of(node, *child), child.get());
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return stands_before(a.first, b.first); });
  for (const auto& [key, child] : order) collect(*child, names);
}

}  // namespace

std::vector<std::string> in_model_order(const std::vector<std::string>& names) {
  Node root("");
  for (const std::string& name : names) {
    Node* node = &root;
    for (const std::string_view part : components(name, "./")) {
      auto at = node->children.find(part);
      if (at == node->children.end()) {
        at = node->children.emplace(std::string(part), std::make_unique<Node>(part)).first;
      }
      node = at->second.get();
    }
    node->is_layer = true;
    node->layer = name;
  }
  std::vector<std::string> ordered;
  collect(root, ordered);
  return ordered;
}

LayerList::LayerList(const Outline& outline) {
  std::map<std::string, bool, std::less<>> found;  // has a weight
  for (std::size_t i = 0; i < outline.layers.size(); ++i) {
    if (!outline.layers[i].empty()) found[outline.layers[i]] |= outline.roles[i] == "weight";
  }
  if (!outline.order.empty()) order_ = "stated";
  for (const std::string& name : outline.order) {
    const auto at = found.find(name);
    if (at == found.end()) continue;  // a layer without tensors, such as an activation
    layers_.push_back({name, at->second});
    found.erase(at);
  }
  std::vector<std::string> rest;
  rest.reserve(found.size());
  for (const auto& [name, weight] : found) rest.push_back(name);
  for (const std::string& name : in_model_order(rest)) layers_.push_back({name, found.at(name)});
}

const std::string& LayerList::resolve_one(const std::string& selector, const std::string& file) const {
  if (is_number(selector)) {
    const std::size_t number = selector.size() < 10 ? std::stoul(selector) : layers_.size();
    if (number < layers_.size()) return layers_[number].name;
    fail_at(ErrorCode::not_found, "layers", "{}: has no layer number {}: they are 0 to {} (see bitrift ls)",
            file, selector, layers_.size() - 1);
  }
  if (selector == "first" || selector == "middle" || selector == "last") {
    std::vector<const Layer*> weighty;
    for (const Layer& layer : layers_) {
      if (layer.has_weight) weighty.push_back(&layer);
    }
    if (weighty.empty()) {
      fail_at(ErrorCode::not_found, "layers",
              "{}: none of its {} layers holds a weight, so none is the {} one", file, layers_.size(),
              selector);
    }
    if (selector == "first") return weighty.front()->name;
    return (selector == "last" ? weighty.back() : weighty[weighty.size() / 2])->name;
  }
  const auto at = std::find_if(layers_.begin(), layers_.end(),
                               [&](const Layer& layer) { return layer.name == selector; });
  if (at != layers_.end()) return at->name;
  fail_at(ErrorCode::not_found, "layers",
          "{}: has no layer '{}' (give first, middle, last, a number or a name from bitrift ls)", file,
          selector);
}

std::set<std::string, std::less<>> LayerList::resolve(const std::vector<std::string>& selectors,
                                                      const std::string& file) const {
  if (!selectors.empty() && layers_.empty()) {
    fail_at(ErrorCode::bad_input, "layers",
            "{}: no layers can be recognised from its names; choose tensors by --tensor or --role", file);
  }
  std::set<std::string, std::less<>> names;
  for (const std::string& selector : selectors) names.insert(resolve_one(selector, file));
  return names;
}

}  // namespace bitrift::ckpt
