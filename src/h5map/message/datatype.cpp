#include "h5map/message/datatype.h"

#include <algorithm>

#include "core/error.h"

namespace bitrift::h5map {
namespace {

constexpr unsigned deepest_type = 32;
constexpr unsigned most_array_dimensions = 32;

class TypeReader {
 public:
  TypeReader(Cursor& cursor, const std::string& name) : cursor_(cursor), name_(name) {}

  DatatypePtr read(unsigned depth = 0) {
    if (depth > deepest_type) bad(fmt::format("types are nested more than {} deep", deepest_type));
    Datatype type;
    const unsigned kind = cursor_.u8();
    type.version = kind >> 4U;
    if (type.version < 1 || type.version > 5) {
      fail(ErrorCode::unsupported, "{}: datatype message version {} is unknown", name_, type.version);
    }
    if ((kind & 15U) > 11)
      fail(ErrorCode::unsupported, "{}: datatype class {} is unknown", name_, kind & 15U);
    type.type_class = static_cast<TypeClass>(kind & 15U);
    const auto flags = static_cast<unsigned>(cursor_.number(3));
    type.bytes = cursor_.u32();
    if (type.bytes == 0) bad("type has no size");
    read_properties(type, flags, depth);
    return std::make_shared<const Datatype>(std::move(type));
  }

 private:
  [[noreturn]] void bad(const std::string& text) const {
    fail(ErrorCode::bad_file, "{}: datatype is damaged: {}", name_, text);
  }

  void read_properties(Datatype& type, unsigned flags, unsigned depth) {
    switch (type.type_class) {
      case TypeClass::fixed_point:
      case TypeClass::bitfield:
        type.order = (flags & 1U) != 0 ? StoredOrder::big : StoredOrder::little;
        type.is_signed = type.type_class == TypeClass::fixed_point && (flags & 8U) != 0;
        read_bits(type);
        break;
      case TypeClass::floating_point:
        read_float(type, flags);
        break;
      case TypeClass::time:
        type.order = (flags & 1U) != 0 ? StoredOrder::big : StoredOrder::little;
        type.precision = cursor_.u16();
        break;
      case TypeClass::string:
        type.space_padded = (flags & 15U) == 2;
        break;
      case TypeClass::reference:
        break;
      case TypeClass::opaque:
        read_tag(type, flags & 255U);
        break;
      case TypeClass::compound:
        read_compound(type, flags & 0xffffU, depth);
        break;
      case TypeClass::enumeration:
        read_enumeration(type, flags & 0xffffU, depth);
        break;
      case TypeClass::variable_length:
        type.variable_string = (flags & 15U) == 1;
        type.base = read(depth + 1);
        break;
      case TypeClass::array:
        read_array(type, depth);
        break;
      case TypeClass::complex:
        type.base = read(depth + 1);
        if (type.base->type_class != TypeClass::floating_point || type.base->bytes * 2 != type.bytes) {
          bad("complex type is not two floating numbers");
        }
        break;
    }
  }

  void read_bits(Datatype& type) {
    type.first_bit = cursor_.u16();
    type.precision = cursor_.u16();
    if (type.precision == 0 || type.first_bit + type.precision > type.bytes * 8) {
      bad("bits of a number lie outside of its bytes");
    }
  }

  void read_float(Datatype& type, unsigned flags) {
    // HDF5 itself reads VAX order in messages of version 1 and 2 as big-endian; bitrift alters neither.
    type.order = (flags & 1U) == 0      ? StoredOrder::little
                 : (flags & 0x40U) == 0 ? StoredOrder::big
                                        : StoredOrder::vax;
    read_bits(type);
    FloatFields& fields = type.fields;
    const unsigned norm = (flags >> 4U) & 3U;
    if (norm > 2) bad("unknown normalisation of a floating type");
    fields.norm = static_cast<FloatFields::Norm>(norm);
    fields.sign = (flags >> 8U) & 255U;
    fields.exponent_at = cursor_.u8();
    fields.exponent_bits = cursor_.u8();
    fields.mantissa_at = cursor_.u8();
    fields.mantissa_bits = cursor_.u8();
    fields.bias = cursor_.u32();
    const auto outside = [&](unsigned at, unsigned bits) {
      return bits == 0 || at + bits > type.first_bit + type.precision;
    };
    if (outside(fields.sign, 1) || outside(fields.exponent_at, fields.exponent_bits) ||
        outside(fields.mantissa_at, fields.mantissa_bits)) {
      bad("fields of a floating type lie outside of its bits");
    }
  }

  void read_tag(Datatype& type, unsigned bytes) {
    const auto tag = cursor_.take(bytes);
    type.tag.assign(tag.begin(), std::find(tag.begin(), tag.end(), std::uint8_t{0}));
  }

  /// A name that ends in a zero; before version 3 it is padded to a multiple of eight bytes.
  std::string read_name(const Datatype& type) {
    std::string text;
    std::uint64_t bytes = 1;
    for (std::uint8_t byte = cursor_.u8(); byte != 0; byte = cursor_.u8(), ++bytes) {
      text += static_cast<char>(byte);
    }
    if (type.version < 3) cursor_.skip((8 - bytes % 8) % 8);
    return text;
  }

  void read_compound(Datatype& type, unsigned count, unsigned depth) {
    unsigned offset_bytes = 4;
    if (type.version >= 3) {
      offset_bytes = 1;
      while (offset_bytes < 4 && type.bytes >> (8 * offset_bytes) != 0) ++offset_bytes;
    }
    if (count == 0) bad("compound type has no members");
    for (unsigned i = 0; i < count; ++i) {
      TypeMember member;
      member.name = read_name(type);
      member.offset = cursor_.number(offset_bytes);
      std::vector<std::uint64_t> dimensions;
      if (type.version == 1) dimensions = read_member_dimensions();
      member.type = read(depth + 1);
      if (!dimensions.empty()) member.type = array_of(member.type, std::move(dimensions));
      if (member.type->bytes > type.bytes || member.offset > type.bytes - member.type->bytes) {
        bad(fmt::format("member {} of {} lies outside of its compound", i, count));
      }
      type.members.push_back(std::move(member));
    }
  }

  /// Version 1 gives a member up to four dimensions.
  std::vector<std::uint64_t> read_member_dimensions() {
    const unsigned rank = cursor_.u8();
    if (rank > 4) bad("member has more than four dimensions");
    cursor_.skip(11);
    std::vector<std::uint64_t> dimensions;
    for (unsigned i = 0; i < 4; ++i) {
      const std::uint64_t dimension = cursor_.u32();
      if (i < rank) dimensions.push_back(dimension);
    }
    return dimensions;
  }

  [[nodiscard]] DatatypePtr array_of(DatatypePtr base, std::vector<std::uint64_t> dimensions) const {
    Datatype type;
    type.type_class = TypeClass::array;
    type.bytes = base->bytes;
    for (const std::uint64_t dimension : dimensions) type.bytes = times(type.bytes, dimension);
    type.base = std::move(base);
    type.dimensions = std::move(dimensions);
    return std::make_shared<const Datatype>(std::move(type));
  }

  [[nodiscard]] std::uint64_t times(std::uint64_t a, std::uint64_t b) const {
    if (b == 0 || a > 0xffffffffU / b) bad("array type has no size that fits");
    return a * b;
  }

  void read_enumeration(Datatype& type, unsigned count, unsigned depth) {
    type.base = read(depth + 1);
    if (type.base->type_class != TypeClass::fixed_point || type.base->bytes != type.bytes) {
      bad("enumeration is not of integers of its size");
    }
    for (unsigned i = 0; i < count; ++i) type.value_names.push_back(read_name(type));
    const auto values = cursor_.take(std::uint64_t{count} * type.base->bytes);
    type.values.assign(values.begin(), values.end());
  }

  void read_array(Datatype& type, unsigned depth) {
    const unsigned rank = cursor_.u8();
    if (rank == 0 || rank > most_array_dimensions) bad(fmt::format("array type has {} dimensions", rank));
    if (type.version < 3) cursor_.skip(3);
    for (unsigned i = 0; i < rank; ++i) type.dimensions.push_back(cursor_.u32());
    if (type.version < 3) cursor_.skip(std::uint64_t{4} * rank);
    type.base = read(depth + 1);
    std::uint64_t bytes = type.base->bytes;
    for (const std::uint64_t dimension : type.dimensions) bytes = times(bytes, dimension);
    if (bytes != type.bytes) bad("array type is not as large as its elements");
  }

  Cursor& cursor_;
  const std::string& name_;
};

std::string float_name(const Datatype& type) {
  return fmt::format("float{} ({} exponent, {} mantissa bits)", type.precision, type.fields.exponent_bits,
                     type.fields.mantissa_bits);
}

/// The fields of an IEEE-like format of this many bytes and bits.
bool is_ieee(const Datatype& type) {
  const FloatFields& fields = type.fields;
  const unsigned bits = type.precision;
  return type.first_bit == 0 && bits == type.bytes * 8 && fields.sign == bits - 1 &&
         fields.mantissa_at == 0 && fields.exponent_at == fields.mantissa_bits &&
         fields.exponent_bits + fields.mantissa_bits == bits - 1 && fields.exponent_bits < 32 &&
         fields.bias == (1U << (fields.exponent_bits - 1)) - 1 && fields.norm == FloatFields::Norm::implied;
}

/// The form in which h5py and others store truth values: a byte in which FALSE is 0 and TRUE is 1. Any other
/// two names for 0 and 1 may get a third one day.
bool is_bool(const Datatype& type) {
  if (type.type_class != TypeClass::enumeration || type.bytes != 1 || type.values.size() != 2) return false;
  const auto names = [&](std::size_t i, std::string_view word) {
    return std::equal(word.begin(), word.end(), type.value_names[i].begin(), type.value_names[i].end(),
                      [](char a, char b) { return a == b || a == b + ('a' - 'A'); });
  };
  const std::size_t no = type.values[0] == 0 ? 0 : 1;
  return type.values[no] == 0 && type.values[1 - no] == 1 && names(no, "false") && names(1 - no, "true");
}

}  // namespace

std::optional<NumberFormat> Datatype::number() const {
  if (type_class == TypeClass::enumeration) return is_bool(*this) ? number_format("bool") : base->number();
  if (order == StoredOrder::vax || bytes > 8) return std::nullopt;
  NumberFormat format;
  format.bytes = static_cast<unsigned>(bytes);
  if (type_class == TypeClass::floating_point) {
    if (!is_ieee(*this)) return std::nullopt;
    format.exponent_bits = fields.exponent_bits;
    format.mantissa_bits = fields.mantissa_bits;
  } else if (type_class == TypeClass::fixed_point || type_class == TypeClass::bitfield) {
    if (precision == 0 || first_bit + precision > bytes * 8) return std::nullopt;
    if (precision != bytes * 8) {
      format.precision = precision;
      format.bit_offset = first_bit;
    }
    format.kind = is_signed ? NumberKind::signed_integer : NumberKind::unsigned_integer;
    format.exponent_bits = format.mantissa_bits = 0;
  } else {
    return std::nullopt;
  }
  // Only types that have a name as a number format.
  if (number_format(format.name()) != format) return std::nullopt;
  if (bytes > 1 && order == StoredOrder::big) format.order = ByteOrder::big;
  return format;
}

std::string Datatype::name() const {
  const auto format = number();
  if (format &&
      (type_class == TypeClass::fixed_point || type_class == TypeClass::floating_point || is_bool(*this))) {
    return format->name();
  }
  switch (type_class) {
    case TypeClass::fixed_point: {
      std::string text = fmt::format("{}int{}", is_signed ? "" : "u", precision);
      if (precision != bytes * 8) text += fmt::format(" in {} bytes", bytes);
      return text;
    }
    case TypeClass::floating_point:
      return order == StoredOrder::vax ? float_name(*this) + ", VAX order" : float_name(*this);
    case TypeClass::time:
      return "time";
    case TypeClass::string:
      return "string";
    case TypeClass::bitfield:
      return "bitfield";
    case TypeClass::opaque:
      return "opaque";
    case TypeClass::compound:
      return "compound";
    case TypeClass::reference:
      return "reference";
    case TypeClass::enumeration:
      return "enum";
    case TypeClass::variable_length:
      return variable_string ? "variable-length string" : "variable-length";
    case TypeClass::array:
      return "array";
    case TypeClass::complex:
      return "complex of " + base->name();
  }
  return "other";
}

bool Datatype::is_big_endian() const noexcept {
  if (type_class == TypeClass::enumeration) return base->is_big_endian();
  return order == StoredOrder::big && bytes > 1;
}

bool Datatype::plain() const noexcept {
  if (type_class == TypeClass::variable_length || type_class == TypeClass::reference) return false;
  if (base && !base->plain()) return false;
  return std::all_of(members.begin(), members.end(), [](const TypeMember& m) { return m.type->plain(); });
}

std::uint64_t Datatype::footprint() const noexcept {
  std::uint64_t sum =
      sizeof(Datatype) + tag.size() + values.size() + dimensions.size() * sizeof(std::uint64_t);
  for (const std::string& text : value_names) sum += sizeof(std::string) + text.size();
  for (const TypeMember& member : members) {
    sum += sizeof member + member.name.size() + member.type->footprint();
  }
  return base ? sum + base->footprint() : sum;
}

DatatypePtr parse_datatype(Cursor& cursor, const std::string& name) {
  return TypeReader(cursor, name).read();
}

}  // namespace bitrift::h5map
