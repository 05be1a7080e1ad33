// The formats in which checkpoints are written.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ckpt/tensor.h"
#include "core/named_enum.h"
#include "core/number/number_format.h"

namespace bitrift::ckpt {

/// See docs/checkpoint-formats.md.
enum class WriteFormat {
  hdf5,
  hdf5_deflate,  ///< chunked, shuffled and deflated
  safetensors,
  npz,
  npz_deflate,
  pytorch,
  raw  ///< only the bytes of the tensors: a lower limit for measurements, which nothing can read back
};
constexpr EnumNames<7> names_of(WriteFormat) {
  return {"format of a checkpoint",
          {"hdf5", "hdf5-deflate", "safetensors", "npz", "npz-deflate", "pytorch", "raw"}};
}

/// The format that the extension of a file's name asks for: .safetensors, .npz, .pt and .pth; hdf5 for all
/// other names.
[[nodiscard]] WriteFormat format_of_name(const std::filesystem::path& file);
/// Whether the size of a file depends on the values in it. Such a file has no image; a Writer compresses it
/// in memory.
[[nodiscard]] bool is_compressed(WriteFormat format) noexcept;
/// Throws Error(bad_input), "<what>: npz cannot hold bfloat16; choose hdf5, ...", for a number format that
/// the format lacks.
void check_holds(WriteFormat format, const NumberFormat& numbers, std::string_view what);
/// The same for each tensor; the message names the first.
void check_holds(WriteFormat format, const std::vector<TensorMeta>& metas);

}  // namespace bitrift::ckpt
