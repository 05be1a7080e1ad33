#include "ckpt/roles.h"

#include <algorithm>

namespace bitrift::ckpt {
namespace {

bool is_running_stat(std::string_view name) {
  return name == "running_mean" || name == "running_var" || name == "num_batches_tracked";
}

/// A parameter or buffer by its last name: "conv1.weight" and "conv1/weight" alike.
std::string role_of_parameter(std::string_view path, const std::set<std::string, std::less<>>& paths) {
  const std::size_t cut = path.find_last_of("./");
  if (cut == std::string_view::npos)
    return path == "weight" || path == "bias" ? std::string(path) : "unknown";
  const std::string_view name = path.substr(cut + 1);
  if (is_running_stat(name)) return "running_stat";
  if (name != "weight" && name != "bias") return "unknown";
  const std::string sibling = std::string(path.substr(0, cut + 1)) + "running_mean";
  return paths.contains(sibling) ? "norm" : std::string(name);
}

std::string role_of_slot(std::string_view rest) {
  const std::string_view slot = rest.substr(0, rest.find('/'));
  if (slot == "momentum_buffer") return "momentum";
  if (slot == "exp_avg" || slot == "exp_avg_sq" || slot == "step") return std::string(slot);
  return "unknown";
}

// "replica/2/model/bn1.weight" has the role of "model/bn1.weight", whose siblings may stand there only.
std::string_view path_in_replica(std::string_view path) {
  constexpr std::string_view prefix = "replica/";
  if (!path.starts_with(prefix)) return path;
  const std::size_t end = path.find_first_not_of("0123456789", prefix.size());
  if (end == prefix.size() || end == std::string_view::npos || path[end] != '/') return path;
  return path.substr(end + 1);
}

}  // namespace

std::string role_of(std::string_view path, const std::set<std::string, std::less<>>& paths) {
  path = path_in_replica(path);
  const std::size_t slash = path.find('/');
  const std::string_view top = path.substr(0, slash);
  if (slash != std::string_view::npos) {
    if (top == "checksum" || top == "rng" || top == "progress") return std::string(top);
    if (top == "optimizer") return role_of_slot(path.substr(slash + 1));
  }
  return role_of_parameter(path, paths);
}

const std::vector<std::string>& role_names() {
  static const std::vector<std::string> names = {"weight",   "bias",     "norm",       "running_stat",
                                                 "momentum", "exp_avg",  "exp_avg_sq", "step",
                                                 "rng",      "progress", "checksum",   "unknown"};
  return names;
}

}  // namespace bitrift::ckpt
