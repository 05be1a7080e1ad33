#include "ckpt/set/file_set.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <system_error>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "archive/bounded_file.h"
#include "core/error.h"
#include "core/file_run.h"

namespace bitrift::ckpt {
namespace {

using nlohmann::json;

constexpr std::uint64_t most_index = std::uint64_t{64} << 20U;
constexpr std::string_view metadata_name = ".metadata";
constexpr std::array<std::string_view, 2> index_ends = {".index.json", ".weights.json"};
/// Where a folder has several, transformers and diffusers take the first of these.
constexpr std::array<std::string_view, 2> first_indexes = {"model.safetensors.index.json",
                                                           "pytorch_model.bin.index.json"};
constexpr std::array<std::string_view, 4> models = {"model.safetensors", "adapter_model.safetensors",
                                                    "diffusion_pytorch_model.safetensors",
                                                    "pytorch_model.bin"};
constexpr std::array<std::string_view, 2> optimizers = {"optimizer.pt", "optimizer.bin"};
/// DeepSpeed: the folder of the checkpoint to resume from, in a text, and what the names of the ranks' files
/// end in (deepspeed/runtime/engine.py, save_checkpoint).
constexpr std::string_view latest_name = "latest";
constexpr std::uint64_t most_latest = 4096;
constexpr std::array<std::string_view, 2> rank_ends = {"model_states.pt", "optim_states.pt"};

/// A script whose ranks each save a file calls them rank0.pt, model_rank_1.safetensors, stage-2.pth and the
/// like.
constexpr std::array<std::string_view, 5> rank_words = {"rank", "stage", "shard", "part", "worker"};
constexpr std::array<std::string_view, 6> rank_formats = {".pt",   ".pth",         ".bin",
                                                          ".ckpt", ".safetensors", ".npz"};

bool is_index(std::string_view name) {
  return std::any_of(index_ends.begin(), index_ends.end(), [name](std::string_view end) {
    return name.size() > end.size() && name.ends_with(end);
  });
}

bool has_file(const std::filesystem::path& folder, std::string_view name) {
  std::error_code none;
  return std::filesystem::is_regular_file(folder / name, none);
}

/// The index to read; "" if the folder has none.
std::string index_in(const std::filesystem::path& folder) {
  for (const std::string_view name : first_indexes) {
    if (has_file(folder, name)) return std::string(name);
  }
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (is_index(name) && entry.is_regular_file(none)) names.push_back(name);
  }
  if (names.size() < 2) return names.empty() ? "" : names.front();
  std::sort(names.begin(), names.end());
  fail(ErrorCode::bad_input, "{}: holds several checkpoints; name the index of one: {}", folder.string(),
       fmt::join(names, ", "));
}

json parse_index(const std::filesystem::path& path) {
  const archive::BoundedFile file(path);
  if (file.size() > most_index) {
    fail(ErrorCode::unsupported, "{}: has {} bytes; at most {} of an index are read", path.string(),
         file.size(), most_index);
  }
  const auto text = file.read(0, file.size(), "the index");
  json document = json::parse(text, nullptr, false);
  if (document.is_object() && document.contains("weight_map") && document["weight_map"].is_object())
    return document;
  fail(ErrorCode::bad_file, "{}: is not the index of a checkpoint: it has no object weight_map",
       path.string());
}

void read_index(FileSet& set) {
  const auto path = set.folder / set.index;
  const json document = parse_index(path);
  std::set<std::string> files;
  for (const auto& [tensor, place] : document["weight_map"].items()) {
    const json names = place.is_array() ? place : json::array({place});
    for (const json& name : names) {
      if (!name.is_string() || !stays_in_folder(name.get<std::string>())) {
        fail(ErrorCode::bad_file, "{}: weight_map: the file of {} is not a name in its folder", path.string(),
             archive::printable(tensor));
      }
      files.insert(name.get<std::string>());
      if (!place.is_array()) set.indexed.emplace(tensor, name.get<std::string>());
    }
  }
  for (const std::string& name : files) {
    if (!has_file(set.folder, name)) {
      fail(ErrorCode::not_found, "{}: is missing, and {} names it", (set.folder / name).string(), set.index);
    }
    set.files.push_back({name, ""});
  }
  if (files.empty()) fail(ErrorCode::bad_file, "{}: its weight_map names no file", path.string());
}

void add_optimizer(FileSet& set) {
  for (const std::string_view name : optimizers) {
    if (!has_file(set.folder, name)) continue;
    set.files.push_back({std::string(name), "optimizer/"});
    return;
  }
}

/// The files of ranks in a folder, sorted.
std::vector<std::string> rank_files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    const bool known = std::any_of(rank_ends.begin(), rank_ends.end(),
                                   [&](std::string_view end) { return name.ends_with(end); });
    if (known && entry.is_regular_file(none)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The folder that `latest` names; "" if there is no such file, or it holds something else.
std::string latest_folder(const std::filesystem::path& folder) {
  if (!has_file(folder, latest_name)) return "";
  const archive::BoundedFile file(folder / latest_name);
  if (file.size() > most_latest) return "";
  const auto bytes = file.read(0, file.size(), "the name of the latest checkpoint");
  const std::string text(bytes.begin(), bytes.end());
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return "";
  std::string name = text.substr(0, end + 1);
  return stays_in_folder(name) ? name : "";
}

/// The files of DeepSpeed's ranks: in the folder itself, or in the one that `latest` names.
void add_ranks(FileSet& set) {
  std::string tag;
  std::vector<std::string> names = rank_files_in(set.folder);
  if (names.empty()) {
    tag = latest_folder(set.folder);
    if (tag.empty()) return;
    names = rank_files_in(set.folder / tag);
    if (names.empty()) return;
    if (set.index.empty()) set.index = latest_name;
    tag += '/';
  }
  for (const std::string& name : names)
    set.files.push_back({tag + name, name.substr(0, name.size() - std::string_view(".pt").size()) + '/'});
}

/// Whether a file has the name of a rank's own one.
bool is_file_of_rank(const std::filesystem::path& name) {
  if (std::ranges::find(rank_formats, name.extension().string()) == rank_formats.end()) return false;
  std::string stem = name.stem().string();
  const std::size_t end = stem.find_last_not_of("0123456789");
  if (end == std::string::npos || end + 1 == stem.size()) return false;
  stem.resize(end + 1);
  if (std::string_view("_-.").find(stem.back()) != std::string_view::npos) stem.pop_back();
  std::ranges::transform(stem, stem.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::any_of(rank_words, [&](std::string_view word) { return stem.ends_with(word); });
}

/// The files that the ranks of a script saved, at least two.
void add_own_ranks(FileSet& set) {
  std::vector<std::filesystem::path> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(set.folder, none)) {
    if (is_file_of_rank(entry.path().filename()) && entry.is_regular_file(none))
      names.push_back(entry.path().filename());
  }
  if (names.size() < 2) return;
  std::sort(names.begin(), names.end());
  std::set<std::string> stems;
  for (const std::filesystem::path& name : names) stems.insert(name.stem().string());
  const bool differ = stems.size() == names.size();
  for (const std::filesystem::path& name : names)
    set.files.push_back({name.string(), (differ ? name.stem() : name).string() + '/'});
}

}  // namespace

std::filesystem::path root_of_set(const std::filesystem::path& path) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) return path.has_filename() ? path : path.parent_path();
  if (!is_index(path.filename().string())) return path;
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

std::optional<FileSet> find_file_set(const std::filesystem::path& path) {
  FileSet set{.folder = root_of_set(path), .index = ""};
  std::error_code none;
  if (!std::filesystem::is_directory(set.folder, none)) return std::nullopt;
  const bool named = !std::filesystem::is_directory(path, none);
  if (named && !std::filesystem::exists(path, none)) return std::nullopt;
  if (!named && has_file(set.folder, metadata_name)) {
    set.kind = SetKind::distributed;
    set.index = metadata_name;
    return set;
  }
  set.index = named ? path.filename().string() : index_in(set.folder);
  if (!set.index.empty()) {
    set.kind = SetKind::indexed;
    read_index(set);
  } else {
    const auto model = std::find_if(models.begin(), models.end(),
                                    [&](std::string_view name) { return has_file(set.folder, name); });
    if (model != models.end()) set.files.push_back({std::string(*model), ""});
  }
  if (!set.files.empty()) add_optimizer(set);
  add_ranks(set);
  if (set.files.empty()) add_own_ranks(set);
  if (set.files.empty()) return std::nullopt;
  return set;
}

}  // namespace bitrift::ckpt
