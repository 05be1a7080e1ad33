#include "ckpt/container/foreign_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "core/file.h"

namespace bitrift::ckpt {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t looked_at = 512;

struct ForeignKind {
  std::string_view begins;  ///< in lower case where `any_case`
  std::string_view text;
  bool any_case = false;
};

constexpr std::string_view ggml_file = "a ggml file; bitrift reads the checkpoint that it was made from";
constexpr std::string_view compressed_file = "a compressed file; unpack it first";
constexpr std::array<ForeignKind, 21> foreign_kinds = {{
    {"GGUF"sv, "a GGUF file; bitrift reads the safetensors or PyTorch file that it was made from"sv},
    {"\x93NUMPY"sv, "an .npy file of one array; save it by numpy.savez, which names arrays"sv},
    {"version https://git-lfs.github.com/"sv,
     "a pointer of Git LFS, not the file itself; get that by `git lfs pull`"sv},
    {"<!doctype html"sv, "a web page; the download failed, or needs a login"sv, true},
    {"<html"sv, "a web page; the download failed, or needs a login"sv, true},
    {"\x1f\x8b"sv, compressed_file},
    {"BZh"sv, compressed_file},
    {"\xfd"
     "7zXZ"sv,
     compressed_file},
    {"\x28\xb5\x2f\xfd"sv, compressed_file},
    {"CDF\x01"sv, "a NetCDF-3 file; convert it to NetCDF-4, which is HDF5, by `nccopy -k nc4`"sv},
    {"CDF\x02"sv, "a NetCDF-3 file; convert it to NetCDF-4, which is HDF5, by `nccopy -k nc4`"sv},
    {"CDF\x05"sv, "a NetCDF-3 file; convert it to NetCDF-4, which is HDF5, by `nccopy -k nc4`"sv},
    {"\x80\x02"sv, "a pickle of Python; load it, and save its tensors by torch.save"sv},
    {"\x80\x03"sv, "a pickle of Python; load it, and save its tensors by torch.save"sv},
    {"\x80\x04"sv, "a pickle of Python; load it, and save its tensors by torch.save"sv},
    {"\x80\x05"sv, "a pickle of Python; load it, and save its tensors by torch.save"sv},
    {"\x0e\x03\x13\x01"sv, "an HDF4 file; convert it to HDF5 by `h4toh5`"sv},
    {"MATLAB 5.0 MAT-file"sv,
     "a MATLAB file from before version 7.3; save it with '-v7.3', which writes HDF5"sv},
    {"lmgg"sv, ggml_file},
    {"fmgg"sv, ggml_file},
    {"tjgg"sv, ggml_file},
}};

std::string beginning_of(const std::filesystem::path& path) {
  std::array<char, looked_at> bytes{};
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const ssize_t count = fd ? ::pread(fd.get(), bytes.data(), bytes.size(), 0) : -1;
  return count < 0 ? std::string() : std::string(bytes.data(), static_cast<std::size_t>(count));
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// A protobuf of onnx.ModelProto: its version, then the name of the program that wrote it.
bool looks_like_onnx(std::string_view first) {
  if (first.size() < 8 || first[0] != 0x08 || first[2] != 0x12) return false;
  const auto length = static_cast<unsigned char>(first[3]);
  return length > 0 && length < 64 && first.size() > 4U + length &&
         std::all_of(first.begin() + 4, first.begin() + 4 + length,
                     [](unsigned char c) { return std::isprint(c) != 0; });
}

/// A file of FlatBuffers has its kind in the four bytes after the first four; "" for all others.
std::string_view model_of_flatbuffers(std::string_view first) {
  if (first.size() < 8) return {};
  const std::string_view kind = first.substr(4, 4);
  if (kind == "TFL3") return "a model of TensorFlow Lite";
  return kind == "ET12" || kind == "ET13" ? "a program of ExecuTorch" : "";
}

/// A checkpoint of TensorFlow is an index, NAME.index, which is a table of LevelDB and ends in that format's
/// magic number, and files of values, NAME.data-00000-of-00002 and so on.
bool is_of_tensorflow(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const std::size_t data = name.find(".data-");
  if (data != std::string::npos && name.find("-of-", data) != std::string::npos) return true;
  constexpr std::string_view number = "\x57\xfb\x80\x8b\x24\x75\x47\xdb";
  std::array<char, number.size()> last{};
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return false;
  const off_t size = ::lseek(fd.get(), 0, SEEK_END);
  const auto count = static_cast<off_t>(last.size());
  return size >= count && ::pread(fd.get(), last.data(), last.size(), size - count) == count &&
         std::string_view(last.data(), last.size()) == number;
}

/// A map with text as its first key, as flax.serialization.to_bytes() writes it.
bool looks_like_msgpack(std::string_view first) {
  if (first.size() < 3) return false;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(first[i]); };
  const bool large = byte(0) == 0xde;  // its length follows, in two bytes
  if (!large && (byte(0) < 0x81 || byte(0) > 0x8f)) return false;
  const std::size_t key = large ? 3 : 1;
  if (first.size() <= key || byte(key) < 0xa1 || byte(key) > 0xbf) return false;
  const std::string_view text = first.substr(key + 1, byte(key) - 0xa0U);
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isprint(c) != 0; });
}

/// The index of a checkpoint in several files, as Hugging Face writes it, or any other JSON.
std::string json_kind(std::string_view first) {
  const std::size_t at = first.find_first_not_of(" \t\r\n");
  if (at == std::string_view::npos || (first[at] != '{' && first[at] != '[')) return "";
  if (first.find("\n\x93NUMPY") != std::string_view::npos)
    return "a file of Equinox; load it, and save its arrays by numpy.savez or safetensors";
  const bool index = first.find("\"weight_map\"") != std::string_view::npos ||
                     (first.find("\"metadata\"") != std::string_view::npos &&
                      first.find("\"total_size\"") != std::string_view::npos);
  return index ? "the index of a checkpoint in several files, but its name does not end in .index.json"
               : "JSON text, which holds no tensors";
}

bool has_name_of_checkpoint(const std::string& name) {
  constexpr std::array<std::string_view, 9> ends = {".h5",  ".hdf5",        ".pt",  ".pth",  ".ckpt",
                                                    ".bin", ".safetensors", ".npz", ".keras"};
  return std::ranges::any_of(ends, [&](std::string_view end) { return name.ends_with(end); });
}

/// The names of the entries of a folder for which `is` holds, at most three.
template <typename Is>
std::vector<std::string> names_in(const std::filesystem::path& folder, const Is& is) {
  constexpr std::size_t most = 3;
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (is(entry)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  if (names.size() > most) names.resize(most);
  return names;
}

/// Files that bitrift could read, by their names.
std::vector<std::string> checkpoints_in(const std::filesystem::path& folder) {
  return names_in(folder, [](const std::filesystem::directory_entry& entry) {
    std::error_code none;
    return !entry.is_directory(none) && has_name_of_checkpoint(entry.path().filename().string());
  });
}

/// Folders with such files.
std::vector<std::string> folders_of_checkpoints_in(const std::filesystem::path& folder) {
  return names_in(folder, [](const std::filesystem::directory_entry& entry) {
    std::error_code none;
    return entry.is_directory(none) && (std::filesystem::exists(entry.path() / ".metadata", none) ||
                                        !checkpoints_in(entry.path()).empty());
  });
}

constexpr std::string_view tensorflow_checkpoint =
    "a checkpoint of TensorFlow; load it, and save its weights by save_weights(\"NAME.weights.h5\") of Keras";
constexpr std::string_view by_arrays = "restore it, and save its arrays by numpy.savez or safetensors";
/// Folders that other libraries write, by a file in them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> foreign_folders = {{
    {"_CHECKPOINT_METADATA"sv, "a checkpoint of Orbax"sv},
    {"manifest.ocdbt"sv, "a checkpoint of Orbax"sv},
    {"saved_model.pb"sv, "a SavedModel of TensorFlow"sv},
    {".zgroup"sv, "a Zarr group"sv},
    {"zarr.json"sv, "a Zarr group"sv},
}};

std::string folder_kind(const std::filesystem::path& folder) {
  std::error_code none;
  for (const auto& [name, kind] : foreign_folders) {
    if (std::filesystem::exists(folder / name, none)) return fmt::format("{}; {}", kind, by_arrays);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    if (entry.path().extension() == ".index" && is_of_tensorflow(entry.path()))
      return std::string(tensorflow_checkpoint);
  }
  if (const auto names = checkpoints_in(folder); !names.empty())
    return fmt::format("a folder; name a file in it, such as {}", fmt::join(names, ", "));
  if (const auto names = folders_of_checkpoints_in(folder); !names.empty())
    return fmt::format("a folder; name a folder in it, such as {}", fmt::join(names, ", "));
  return "a folder, and holds no file with the name of a checkpoint";
}

}  // namespace

std::string what_else_it_is(const std::filesystem::path& path) {
  std::error_code none;
  if (std::filesystem::is_directory(path, none)) return folder_kind(path);
  const std::string first = beginning_of(path);
  const std::string small = lower_case(first);
  for (const ForeignKind& kind : foreign_kinds) {
    if ((kind.any_case ? small : first).starts_with(kind.begins)) return std::string(kind.text);
  }
  if (first.size() > 262 && first.substr(257, 5) == "ustar") return "a tar archive; unpack it first";
  if (const std::string_view model = model_of_flatbuffers(first); !model.empty())
    return fmt::format("{}; bitrift reads the checkpoint that it was made from", model);
  if (is_of_tensorflow(path)) return std::string(tensorflow_checkpoint);
  if (looks_like_onnx(first)) return "an ONNX model; bitrift reads the checkpoint that it was made from";
  if (looks_like_msgpack(first)) return fmt::format("a msgpack file, as Flax writes it; {}", by_arrays);
  return json_kind(first);
}

}  // namespace bitrift::ckpt
