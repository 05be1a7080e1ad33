// A checkpoint file as its format describes it: what readers and the injector ask of every format.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/format/rewriter.h"
#include "ckpt/format/tensor_info.h"
#include "ckpt/format/values.h"
#include "core/file_run.h"
#include "core/named_enum.h"

namespace bitrift::h5map {
class File;
}
namespace bitrift::archive {
class ZipDirectory;
}

namespace bitrift::ckpt {

/// The formats of checkpoints that bitrift reads.
enum class FileFormat { hdf5, safetensors, npz, pytorch };
constexpr EnumNames<4> names_of(FileFormat) { return {"format", {"hdf5", "safetensors", "npz", "pytorch"}}; }

/// A dataset, an array or an attribute, and the tensors that it holds: itself, or the parts of its elements.
struct Block {
  std::string path;
  std::vector<std::uint64_t> shape;
  std::unique_ptr<Values> values;
  std::vector<TensorInfo> tensors;  ///< without roles and layers
};

/// Bytes [first, end) of a file that hold no tensor's values.
struct ByteExtent {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  std::string
      structure;  ///< "object header of /w", "local header of w.npy", "central directory", "unused", ...
};

/// One open file. Values may be read by any number of threads, everything else is for one.
class Container {
 public:
  Container() = default;
  virtual ~Container() = default;
  Container(Container&&) = delete;
  Container& operator=(Container&&) = delete;

  [[nodiscard]] virtual FileFormat format() const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t bytes() const noexcept = 0;
  /// Sorted by path (bytewise). Once. Throws Error(bad_file | unsupported | io).
  [[nodiscard]] virtual std::vector<Block> blocks() = 0;
  /// Attributes, "<object>@NAME". Once.
  [[nodiscard]] virtual std::vector<Block> attribute_blocks() { return {}; }
  /// Paths of blocks in the order in which the program that wrote the file has them; empty: the file does not
  /// say. Known when blocks() has been called.
  [[nodiscard]] virtual std::vector<std::string> written_order() const { return {}; }
  /// Texts of the file as a whole; known when blocks() has been called.
  [[nodiscard]] virtual std::map<std::string, std::string> root_texts() const { return {}; }
  /// The texts of an attribute of a group, likewise; see GroupTexts. By default those of root_texts().
  [[nodiscard]] virtual std::vector<std::string> texts(const std::string& group,
                                                       const std::string& attribute) const {
    if (!group.empty()) return {};
    const auto whole = root_texts();
    const auto found = whole.find(attribute);
    return found == whole.end() ? std::vector<std::string>() : std::vector<std::string>{found->second};
  }
  /// The text of an attribute of attribute_blocks() that is one string; nullopt for every other.
  [[nodiscard]] virtual std::optional<std::string> text_of(const std::string& /*attribute*/) const {
    return std::nullopt;
  }
  /// A program has it open for writing, by a mark in the file.
  [[nodiscard]] virtual bool marked_open() const noexcept { return false; }
  /// A structure of the file that bytes [first, end) belong to, although they are values too; nullopt in a
  /// sound file.
  [[nodiscard]] virtual std::optional<std::string> clash(std::uint64_t /*first*/, std::uint64_t /*end*/) {
    return std::nullopt;
  }
  /// All bytes that hold no tensor's values, ascending.
  [[nodiscard]] virtual std::vector<ByteExtent> metadata() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Rewriter> rewriter() const = 0;
  /// Its files, when there are several; nullptr for a single one.
  [[nodiscard]] virtual const FileList* files() const noexcept { return nullptr; }
  /// A file of a set, or a part of one, as a container of its own.
  struct Section {
    const Container* container;
    std::size_t part = 0;    ///< its file, among files()
    std::uint64_t base = 0;  ///< of its first byte, counted through all files
  };
  /// Itself, if it is a single file.
  [[nodiscard]] virtual std::vector<Section> sections() const { return {{this}}; }
  /// The file as HDF5's structures; nullptr for other formats.
  [[nodiscard]] virtual const h5map::File* hdf5() const noexcept { return nullptr; }
  /// The directory of a zip archive; nullptr for other formats.
  [[nodiscard]] virtual const archive::ZipDirectory* zip() const noexcept { return nullptr; }
};

}  // namespace bitrift::ckpt
