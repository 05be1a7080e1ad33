// Writing a checkpoint: begin with the full list, give the tensors in any order, commit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/tensor.h"
#include "sink/format/write_format.h"
#include "sink/image.h"
#include "sink/sink_kind.h"

namespace bitrift::ckpt {

/// Writes one file under a temporary name; commit() makes it appear under its own, synced. The layout follows
/// from the tensors and attributes, so the bytes of the file do not depend on the order (or the rank) in
/// which tensors arrive. Two files of equal arguments and contents are equal byte for byte. A format that
/// is_compressed() is packed in memory as the tensors arrive, and written by commit().
class Writer {
 public:
  /// metas: every tensor of the file, any order, no double. attributes: strings on the root group. Throws
  /// Error(io | bad_input), and Error(unsupported) if a library lacks something that the format needs.
  Writer(std::filesystem::path target, std::vector<TensorMeta> metas,
         const std::map<std::string, std::string>& attributes, WriteFormat format = WriteFormat::hdf5,
         SinkKind sink = SinkKind::plain);
  /// For a format that is not compressed; lay it out first. Throws Error(io | bad_input).
  Writer(std::filesystem::path target, std::shared_ptr<const Image> image, SinkKind sink = SinkKind::plain);
  ~Writer();  ///< without commit() nothing is left behind
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) = delete;

  /// Stores all bytes of one tensor (little-endian, row-major) and its checksum. Each exactly once; in a
  /// format that is_compressed() in path order. Throws Error(internal) otherwise.
  void tensor(std::string_view path, const void* data, std::size_t bytes);
  /// Checks that every tensor came, writes the checksums, syncs, renames, syncs the folder.
  void commit();

 private:
  struct State;
  struct Laid;
  struct Packed;
  std::unique_ptr<State> state_;
};

/// Writes a whole file from a copy of its tensors in memory. image: for the same arguments, laid out as
/// `format` or, if that is_compressed(), as raw; `copy` has the tensors at the places of the image. Throws as
/// Writer does.
void write_copy(const std::filesystem::path& target, const std::vector<TensorMeta>& metas,
                const std::map<std::string, std::string>& attributes, WriteFormat format, const Image& image,
                const std::uint8_t* copy, SinkKind sink = SinkKind::plain);

}  // namespace bitrift::ckpt
