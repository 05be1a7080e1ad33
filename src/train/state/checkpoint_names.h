// Names in a checkpoint that loading and saving share. Inside train/ only.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace bitrift::train {

inline constexpr const char* checkpoint_schema = "bitrift/checkpoint/1";
/// Maps the paths of optimizer state.
inline constexpr std::string_view optimizer_prefix = "optimizer/";
/// The number of replicas in the file; only in files of replicas that differ.
inline constexpr const char* replicas_attribute = "replicas";

struct ReplicaPath {
  int number = 0;
  std::string_view path;  ///< of the tensor in replica 0
};

/// "replica/2/model/bn1.running_mean" for (2, "model/bn1.running_mean").
inline std::string replica_path(int number, std::string_view path) {
  return "replica/" + std::to_string(number) + "/" + std::string(path);
}

/// The inverse; nullopt for any other path.
inline std::optional<ReplicaPath> parse_replica_path(std::string_view path) {
  constexpr std::string_view prefix = "replica/";
  if (!path.starts_with(prefix)) return std::nullopt;
  path.remove_prefix(prefix.size());
  ReplicaPath result;
  const auto [end, error] = std::from_chars(path.data(), path.data() + path.size(), result.number);
  const auto digits = static_cast<std::size_t>(end - path.data());
  if (error != std::errc() || digits == path.size() || path[digits] != '/') return std::nullopt;
  result.path = path.substr(digits + 1);
  return result;
}

}  // namespace bitrift::train
