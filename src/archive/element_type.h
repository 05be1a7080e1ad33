// The type of an array's elements, as the formats of archives name it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bitrift::archive {

struct ElementType {
  /// A number format (core/number), "complex of float32", or a type without a number format: "string",
  /// "opaque", "object", "compound", "float4_e2m1", ...
  std::string name;
  std::uint64_t bytes = 0;  ///< of one element
  bool big_endian = false;
  bool complex = false;  ///< two floating numbers, the real part first
  bool plain = true;     ///< its bytes are the value
  bool unicode = false;  ///< a string of 4 bytes for each character
  /// The type of an element that takes less than a byte; `bytes` is then that of the smallest part that can
  /// be read. 0 for all others.
  unsigned packed_bits = 0;
};

/// The type code of a .npy header, such as "<f4", "|b1" or "|S12" (numpy.dtype.str). nullopt for any other
/// text.
[[nodiscard]] std::optional<ElementType> npy_type(std::string_view code);
/// The dtype of a safetensors header, such as "F32" or "BF16". nullopt for unknown ones.
[[nodiscard]] std::optional<ElementType> safetensors_type(std::string_view code);
/// A dtype of PyTorch by the name that a pickle has for it: "float32", or "FloatStorage" for a class of
/// storages. nullopt for unknown ones.
[[nodiscard]] std::optional<ElementType> torch_type(std::string_view name);

/// The code of a little-endian number format, given by its name (core/number). nullopt for formats that the
/// archive cannot hold, or whose elements take a part of a byte there.
[[nodiscard]] std::optional<std::string_view> npy_code(std::string_view number_format) noexcept;
[[nodiscard]] std::optional<std::string_view> safetensors_code(std::string_view number_format) noexcept;
/// A class of storages if there is one for the format ("FloatStorage"), else the dtype ("uint64").
[[nodiscard]] std::optional<std::string_view> torch_code(std::string_view number_format) noexcept;

}  // namespace bitrift::archive
