// Datatypes of HDF5 as a tree.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/number/number_format.h"
#include "h5map/structure/source.h"

namespace bitrift::h5map {

/// The numbers are those of the HDF5 file format (section IV.A.2.d, version 4.0 for the last).
enum class TypeClass : unsigned {
  fixed_point = 0,
  floating_point = 1,
  time = 2,
  string = 3,
  bitfield = 4,
  opaque = 5,
  compound = 6,
  reference = 7,
  enumeration = 8,
  variable_length = 9,
  array = 10,
  complex = 11,
};

enum class StoredOrder { little, big, vax };

/// The places of the parts of a floating type; bit 0 is the least significant of the value.
struct FloatFields {
  enum class Norm { none, top_bit_set, implied };
  unsigned sign = 0, exponent_at = 0, exponent_bits = 0, mantissa_at = 0, mantissa_bits = 0;
  std::uint32_t bias = 0;
  Norm norm = Norm::none;
  bool operator==(const FloatFields&) const = default;
};

struct Datatype;
using DatatypePtr = std::shared_ptr<const Datatype>;

/// A member of a compound type.
struct TypeMember {
  std::string name;
  std::uint64_t offset = 0;  ///< bytes from the start of the element
  DatatypePtr type;
};

/// A datatype. The class determines which of the fields have a meaning.
struct Datatype {
  TypeClass type_class = TypeClass::fixed_point;
  unsigned version = 1;     ///< version of its message: 1 to 5
  std::uint64_t bytes = 0;  ///< size of one element in the file
  StoredOrder order = StoredOrder::little;
  bool is_signed = false;        ///< fixed_point
  unsigned first_bit = 0;        ///< fixed_point, floating_point, bitfield: bits of padding below the value
  unsigned precision = 0;        ///< fixed_point, floating_point, bitfield, time: bits of the value
  FloatFields fields;            ///< floating_point
  std::string tag;               ///< opaque
  bool variable_string = false;  ///< variable_length
  bool space_padded = false;     ///< string: padded with spaces, not zeros
  std::vector<TypeMember> members;        ///< compound
  std::vector<std::string> value_names;   ///< enumeration
  std::vector<std::uint8_t> values;       ///< enumeration: `base->bytes` bytes for each name, as stored
  std::vector<std::uint64_t> dimensions;  ///< array
  DatatypePtr base;                       ///< enumeration, variable_length, array, complex

  /// "float32", "int64", "uint12 in 2 bytes", "float8 (5 exponent, 2 mantissa bits)", "string",
  /// "variable-length string", "compound", "enum", "opaque", "complex of float32", ...
  [[nodiscard]] std::string name() const;
  /// The number format with its byte order; absent if bitrift has none for it: other classes, floating types
  /// with other fields. Bit fields are unsigned integers. An enumeration has the format of its numbers, but
  /// one of a byte with names for 0 and 1 alone is a bool.
  [[nodiscard]] std::optional<NumberFormat> number() const;
  /// The stored bytes are the value: no variable-length part and no reference anywhere in it.
  [[nodiscard]] bool plain() const noexcept;
  /// Whether the bytes of a number, or of an enumeration's number, begin with the most significant one.
  [[nodiscard]] bool is_big_endian() const noexcept;
  /// The approximate memory of the tree, in bytes.
  [[nodiscard]] std::uint64_t footprint() const noexcept;
};

/// Reads one datatype from the cursor. Throws Error(bad_file) for contradictions: sizes of zero, members
/// outside of their compound, fields outside of their number, types nested more than 32 deep;
/// Error(unsupported) for message versions above 5 and unknown classes. `name` (of the file) is for messages.
[[nodiscard]] DatatypePtr parse_datatype(Cursor& cursor, const std::string& name);

}  // namespace bitrift::h5map
