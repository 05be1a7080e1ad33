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
constexpr std::array<std::string_view, 8> models = {"model.safetensors",
                                                    "adapter_model.safetensors",
                                                    "diffusion_pytorch_model.safetensors",
                                                    "pytorch_lora_weights.safetensors",
                                                    "pytorch_model.bin",
                                                    "adapter_model.bin",
                                                    "diffusion_pytorch_model.bin",
                                                    "pytorch_model_fsdp.bin"};
constexpr std::array<std::string_view, 2> optimizers = {"optimizer.pt", "optimizer.bin"};
/// The parts of a pipeline, each in a folder: diffusers, DiffusionPipeline.save_pretrained(), and
/// sentence-transformers, SentenceTransformer.save().
constexpr std::string_view diffusers_name = "model_index.json";
constexpr std::string_view sentence_name = "modules.json";
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

/// Discarded if it is not JSON.
json parse_json(const std::filesystem::path& path) {
  const archive::BoundedFile file(path);
  if (file.size() > most_index) {
    fail(ErrorCode::unsupported, "{}: has {} bytes; at most {} of an index are read", path.string(),
         file.size(), most_index);
  }
  const auto text = file.read(0, file.size(), "the index");
  return json::parse(text, nullptr, false);
}

json parse_index(const std::filesystem::path& path) {
  json document = parse_json(path);
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

/// model_1.safetensors, optimizer_1.bin and so on: Accelerate numbers those after the first.
void add_numbered(FileSet& set, std::string_view first) {
  const std::filesystem::path path(first);
  for (int number = 1;; ++number) {
    const std::string stem = path.stem().string() + '_' + std::to_string(number);
    const std::string name = stem + path.extension().string();
    if (!has_file(set.folder, name)) return;
    set.files.push_back({name, stem + '/'});
  }
}

void add_optimizers(FileSet& set) {
  for (const std::string_view name : optimizers) {
    if (!has_file(set.folder, name)) continue;
    set.files.push_back({std::string(name), "optimizer/"});
    return add_numbered(set, name);
  }
}

/// The models of a folder: those that `index` names or, if it is "", that have a model's name.
void add_models(FileSet& set) {
  if (!set.index.empty()) {
    set.kind = SetKind::indexed;
    return read_index(set);
  }
  for (const std::string_view name : models) {
    if (!has_file(set.folder, name)) continue;
    set.files.push_back({std::string(name), ""});
    return add_numbered(set, name);
  }
}

/// The folders that the parts of a pipeline are in. Other names, such as paths, are ignored.
std::vector<std::string> folders_of_pipeline(const std::filesystem::path& index) {
  const json document = parse_json(index);
  std::vector<std::string> names;
  if (document.is_object()) {  // {"unet": ["diffusers", "UNet2DModel"], "_class_name": "DDPMPipeline"}
    for (const auto& [name, part] : document.items()) {
      if (part.is_array()) names.push_back(name);
    }
  } else if (document.is_array()) {  // [{"name": "2", "path": "2_Dense"}]; the first may be in the root
    for (const json& part : document) {
      if (part.is_object() && part.contains("path") && part["path"].is_string())
        names.push_back(part["path"].get<std::string>());
    }
  }
  std::erase_if(names, [](const std::string& name) {
    return name.empty() || name == "." || name.find('/') != std::string::npos || !stays_in_folder(name);
  });
  return names;
}

std::vector<std::string> folders_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (entry.is_directory(none)) names.push_back(entry.path().filename().string());
  }
  return names;
}

/// Models that are in folders of the checkpoint: the parts of a pipeline, or what a script of diffusers saves
/// (unet/, unet_ema/) beside the optimizer that Accelerate saves.
void add_folders(FileSet& set) {
  std::vector<std::string> names;
  for (const std::string_view name : {diffusers_name, sentence_name}) {
    if (!has_file(set.folder, name)) continue;
    names = folders_of_pipeline(set.folder / name);
    if (set.index.empty()) set.index = name;
    break;
  }
  const bool trained =
      std::ranges::any_of(optimizers, [&](std::string_view name) { return has_file(set.folder, name); });
  if (names.empty() && set.files.empty() && trained) names = folders_in(set.folder);
  for (const std::string& name : std::set<std::string>(names.begin(), names.end())) {
    FileSet part{.folder = set.folder / name, .index = index_in(set.folder / name)};
    add_models(part);
    for (const SetFile& file : part.files)
      set.files.push_back({name + '/' + file.name, name + '/' + file.prefix});
    for (const auto& [tensor, file] : part.indexed)
      set.indexed.emplace(name + '/' + tensor.substr(tensor.starts_with('/') ? 1 : 0), name + '/' + file);
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
  add_models(set);
  if (!named) add_folders(set);
  if (!set.files.empty()) add_optimizers(set);
  add_ranks(set);
  if (set.files.empty()) add_own_ranks(set);
  if (set.files.empty()) return std::nullopt;
  return set;
}

}  // namespace bitrift::ckpt
