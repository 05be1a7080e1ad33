// The header of a safetensors file: which tensors it holds, and where.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "archive/bounded_file.h"
#include "archive/element_type.h"

namespace bitrift::archive {

struct SafeTensor {
  std::string name;
  ElementType type;
  std::vector<std::uint64_t> shape;
  std::uint64_t first = 0, end = 0;  ///< in the file
};

struct SafetensorsHeader {
  std::uint64_t bytes = 0;                      ///< of length and JSON: where the values begin
  std::vector<SafeTensor> tensors;              ///< in the order of their bytes
  std::map<std::string, std::string> metadata;  ///< "__metadata__"
};

/// Whether the first bytes of a file, at least 9, are those of a safetensors file: a length below 2^40, then
/// a brace.
[[nodiscard]] bool looks_like_safetensors(std::span<const std::uint8_t> first) noexcept;

/// Reads the header (https://github.com/huggingface/safetensors, "Format"). Like the format's own reader it
/// accepts only files whose tensors follow each other without a gap up to the end of the file. Throws
/// Error(bad_file) for everything else, Error(unsupported) for types that are unknown.
[[nodiscard]] SafetensorsHeader read_safetensors_header(const BoundedFile& file);

}  // namespace bitrift::archive
