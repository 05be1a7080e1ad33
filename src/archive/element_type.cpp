#include "archive/element_type.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

namespace bitrift::archive {
namespace {

struct Named {
  std::string_view code;
  std::string_view name;
  unsigned bytes;
  bool complex = false;
  unsigned packed_bits = 0;
};

constexpr std::array<Named, 12> npy_types = {{{"<f8", "float64", 8},
                                              {"<f4", "float32", 4},
                                              {"<f2", "float16", 2},
                                              {"|i1", "int8", 1},
                                              {"<i2", "int16", 2},
                                              {"<i4", "int32", 4},
                                              {"<i8", "int64", 8},
                                              {"|u1", "uint8", 1},
                                              {"<u2", "uint16", 2},
                                              {"<u4", "uint32", 4},
                                              {"<u8", "uint64", 8},
                                              {"|b1", "bool", 1}}};

constexpr std::array<Named, 22> safetensors_types = {{{"BOOL", "bool", 1},
                                                      {"F4", "float4_e2m1", 1, false, 4},
                                                      {"F6_E2M3", "float6_e2m3", 1, false, 6},
                                                      {"F6_E3M2", "float6_e3m2", 1, false, 6},
                                                      {"U8", "uint8", 1},
                                                      {"I8", "int8", 1},
                                                      {"F8_E5M2", "float8_e5m2", 1},
                                                      {"F8_E4M3", "float8_e4m3fn", 1},
                                                      {"F8_E8M0", "float8_e8m0", 1},
                                                      {"F8_E4M3FNUZ", "float8_e4m3fnuz", 1},
                                                      {"F8_E5M2FNUZ", "float8_e5m2fnuz", 1},
                                                      {"I16", "int16", 2},
                                                      {"U16", "uint16", 2},
                                                      {"F16", "float16", 2},
                                                      {"BF16", "bfloat16", 2},
                                                      {"I32", "int32", 4},
                                                      {"U32", "uint32", 4},
                                                      {"F32", "float32", 4},
                                                      {"C64", "float32", 8, true},
                                                      {"F64", "float64", 8},
                                                      {"I64", "int64", 8},
                                                      {"U64", "uint64", 8}}};

/// Types that PyTorch packs into bytes or integers are read as those bytes or integers.
constexpr std::array<Named, 58> torch_types = {{{"FloatStorage", "float32", 4},
                                                {"DoubleStorage", "float64", 8},
                                                {"HalfStorage", "float16", 2},
                                                {"BFloat16Storage", "bfloat16", 2},
                                                {"LongStorage", "int64", 8},
                                                {"IntStorage", "int32", 4},
                                                {"ShortStorage", "int16", 2},
                                                {"CharStorage", "int8", 1},
                                                {"ByteStorage", "uint8", 1},
                                                {"BoolStorage", "bool", 1},
                                                {"ComplexFloatStorage", "float32", 8, true},
                                                {"ComplexDoubleStorage", "float64", 16, true},
                                                {"UntypedStorage", "uint8", 1},
                                                {"float32", "float32", 4},
                                                {"float", "float32", 4},
                                                {"float64", "float64", 8},
                                                {"double", "float64", 8},
                                                {"float16", "float16", 2},
                                                {"half", "float16", 2},
                                                {"bfloat16", "bfloat16", 2},
                                                {"int64", "int64", 8},
                                                {"long", "int64", 8},
                                                {"int32", "int32", 4},
                                                {"int", "int32", 4},
                                                {"int16", "int16", 2},
                                                {"short", "int16", 2},
                                                {"int8", "int8", 1},
                                                {"uint8", "uint8", 1},
                                                {"bool", "bool", 1},
                                                {"uint16", "uint16", 2},
                                                {"uint32", "uint32", 4},
                                                {"uint64", "uint64", 8},
                                                {"complex32", "float16", 4, true},
                                                {"chalf", "float16", 4, true},
                                                {"complex64", "float32", 8, true},
                                                {"cfloat", "float32", 8, true},
                                                {"complex128", "float64", 16, true},
                                                {"cdouble", "float64", 16, true},
                                                {"float8_e5m2", "float8_e5m2", 1},
                                                {"float8_e4m3fn", "float8_e4m3fn", 1},
                                                {"float8_e4m3fnuz", "float8_e4m3fnuz", 1},
                                                {"float8_e5m2fnuz", "float8_e5m2fnuz", 1},
                                                {"float8_e8m0fnu", "float8_e8m0", 1},
                                                {"quint8", "quint8", 1},
                                                {"qint8", "qint8", 1},
                                                {"qint32", "qint32", 4},
                                                {"QUInt8Storage", "quint8", 1},
                                                {"QInt8Storage", "qint8", 1},
                                                {"QInt32Storage", "qint32", 4},
                                                {"QUInt4x2Storage", "quint4x2", 1},
                                                {"QUInt2x4Storage", "quint2x4", 1},
                                                {"quint4x2", "quint4x2", 1},
                                                {"quint2x4", "quint2x4", 1},
                                                {"float4_e2m1fn_x2", "float4_e2m1fn_x2", 1},
                                                {"bits8", "bits8", 1},
                                                {"bits4x2", "bits4x2", 1},
                                                {"bits16", "bits16", 2},
                                                {"bits1x8", "bits1x8", 1}}};

template <std::size_t N>
std::optional<ElementType> among(const std::array<Named, N>& types, std::string_view code) {
  const auto at =
      std::find_if(types.begin(), types.end(), [&](const Named& one) { return one.code == code; });
  if (at == types.end()) return std::nullopt;
  ElementType type{std::string(at->name), at->bytes, false, at->complex, at->packed_bits == 0};
  type.packed_bits = at->packed_bits;
  return type;
}

/// The first code of this number format, in which an element takes whole bytes.
template <std::size_t N>
std::optional<std::string_view> code_among(const std::array<Named, N>& types,
                                           std::string_view name) noexcept {
  const auto at = std::find_if(types.begin(), types.end(), [&](const Named& one) {
    return one.name == name && !one.complex && one.packed_bits == 0;
  });
  if (at == types.end()) return std::nullopt;
  return at->code;
}

/// A floating or integer type of this width; the type's own name stays if core/number lacks it.
ElementType number_type(std::string_view stem, std::uint64_t bytes) {
  return {fmt::format("{}{}", stem, 8 * bytes), bytes, false, false, true};
}

}  // namespace

std::optional<ElementType> npy_type(std::string_view code) {
  if (code.size() < 2) return std::nullopt;
  const char order = code[0];
  if (order != '<' && order != '>' && order != '|' && order != '=') return std::nullopt;
  const char kind = code[1];
  std::uint64_t size = 0;
  const auto [rest, error] = std::from_chars(code.data() + 2, code.data() + code.size(), size);
  if (kind == 'O') return ElementType{"object", 8, false, false, false};
  const bool dated = kind == 'M' || kind == 'm';  // "<M8[ns]"
  if (error != std::errc{} || (!dated && rest != code.data() + code.size())) return std::nullopt;
  if (size == 0 && kind != 'S' && kind != 'U' && kind != 'a' && kind != 'V') return std::nullopt;
  if (size > std::uint64_t{1} << 40U) return std::nullopt;
  ElementType type;
  switch (kind) {
    case 'b':
      if (size != 1) return std::nullopt;
      type = {"bool", 1, false, false, true};
      break;
    case 'i':
      type = number_type("int", size);
      break;
    case 'u':
      type = number_type("uint", size);
      break;
    case 'f':
      type = number_type("float", size);
      break;
    case 'c':
      if (size % 2 != 0) return std::nullopt;
      type = {fmt::format("float{}", 4 * size), size, false, true, true};
      break;
    case 'S':
    case 'a':
      type = {"string", size, false, false, true};
      break;
    case 'U':
      type = {"string", 4 * size, false, false, true, true};
      break;
    case 'V':
      type = {"opaque", size, false, false, true};
      break;
    case 'M':
    case 'm':
      type = {kind == 'M' ? "datetime" : "timedelta", size, false, false, true};
      break;
    default:
      return std::nullopt;
  }
  type.big_endian = order == '>';
  return type;
}

std::optional<ElementType> safetensors_type(std::string_view code) { return among(safetensors_types, code); }

std::optional<ElementType> torch_type(std::string_view name) {
  // "int3" and "uint5": PyTorch stores one element in each byte.
  const std::string_view width = name.substr(name.starts_with("u") ? 1 : 0);
  if (width.size() == 4 && width.starts_with("int") && width[3] >= '1' && width[3] <= '7') {
    return ElementType{std::string(name), 1};
  }
  return among(torch_types, name);
}

std::optional<std::string_view> npy_code(std::string_view number_format) noexcept {
  return code_among(npy_types, number_format);
}

std::optional<std::string_view> safetensors_code(std::string_view number_format) noexcept {
  return code_among(safetensors_types, number_format);
}

std::optional<std::string_view> torch_code(std::string_view number_format) noexcept {
  return code_among(torch_types, number_format);
}

}  // namespace bitrift::archive
