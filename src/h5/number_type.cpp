#include "h5/number_type.h"

#include <cstring>

#include <hdf5.h>

#include "h5/library.h"

namespace bitrift::h5 {
namespace {

/// Everything that decides what the bits of a floating type mean.
struct FloatLayout {
  std::size_t sign = 0, exponent_at = 0, exponent_bits = 0, mantissa_at = 0, mantissa_bits = 0;
  std::size_t precision = 0, bytes = 0, bias = 0;
  int offset = 0;
  H5T_norm_t norm = H5T_NORM_IMPLIED;
  bool operator==(const FloatLayout&) const = default;
};

FloatLayout layout_of(const NumberFormat& format) {
  return {.sign = format.bits() - 1U,
          .exponent_at = format.mantissa_bits,
          .exponent_bits = format.exponent_bits,
          .mantissa_at = 0,
          .mantissa_bits = format.mantissa_bits,
          .precision = format.bits(),
          .bytes = format.bytes,
          .bias = (std::size_t{1} << (format.exponent_bits - 1)) - 1};
}

FloatLayout read_float_layout(hid_t type, const std::string& where) {
  FloatLayout layout;
  check(H5Tget_fields(type, &layout.sign, &layout.exponent_at, &layout.exponent_bits, &layout.mantissa_at,
                      &layout.mantissa_bits),
        where);
  layout.precision = H5Tget_precision(type);
  layout.bytes = H5Tget_size(type);
  layout.bias = H5Tget_ebias(type);
  layout.offset = H5Tget_offset(type);
  layout.norm = H5Tget_norm(type);
  return layout;
}

std::optional<ByteOrder> byte_order(hid_t type, std::size_t bytes) {
  if (bytes == 1) return ByteOrder::little;
  switch (H5Tget_order(type)) {
    case H5T_ORDER_LE:
      return ByteOrder::little;
    case H5T_ORDER_BE:
      return ByteOrder::big;
    default:
      return std::nullopt;
  }
}

void describe_float(hid_t type, const std::string& where, TypeInfo& info) {
  const FloatLayout layout = read_float_layout(type, where);
  const auto order = byte_order(type, layout.bytes);
  for (const char* name : {"float64", "float32", "float16", "bfloat16"}) {
    NumberFormat format = number_format(name).value();
    if (!order || layout_of(format) != layout) continue;
    format.order = *order;
    info.format = format;
    info.name = name;
    return;
  }
  info.name = fmt::format("float{} ({} exponent, {} mantissa bits)", layout.precision, layout.exponent_bits,
                          layout.mantissa_bits);
}

void describe_integer(hid_t type, TypeInfo& info) {
  const std::size_t bytes = H5Tget_size(type);
  const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
  const auto order = byte_order(type, bytes);
  const std::size_t precision = H5Tget_precision(type);
  info.name = fmt::format("{}int{}", is_signed ? "" : "u", precision);
  auto format = number_format(fmt::format("{}int{}", is_signed ? "" : "u", bytes * 8));
  if (!format || !order || precision != bytes * 8 || H5Tget_offset(type) != 0) {
    if (precision != bytes * 8) info.name += fmt::format(" in {} bytes", bytes);
    return;
  }
  format->order = *order;
  info.format = format;
}

const char* class_name(H5T_class_t type_class) {
  switch (type_class) {
    case H5T_TIME:
      return "time";
    case H5T_STRING:
      return "string";
    case H5T_BITFIELD:
      return "bitfield";
    case H5T_OPAQUE:
      return "opaque";
    case H5T_COMPOUND:
      return "compound";
    case H5T_REFERENCE:
      return "reference";
    case H5T_ENUM:
      return "enum";
    case H5T_VLEN:
      return "variable-length";
    case H5T_ARRAY:
      return "array";
    default:
      return "other";
  }
}

}  // namespace

TypeInfo describe_type(std::int64_t type, const std::string& where) {
  const Scope scope;
  TypeInfo info;
  info.bytes = H5Tget_size(type);
  if (info.bytes == 0) check(-1, where);
  const H5T_class_t type_class = H5Tget_class(type);
  check(type_class, where);
  const bool variable = H5Tis_variable_str(type) > 0 || H5Tdetect_class(type, H5T_VLEN) > 0;
  info.plain = !variable && H5Tdetect_class(type, H5T_REFERENCE) <= 0;
  if (type_class == H5T_FLOAT) {
    describe_float(type, where, info);
  } else if (type_class == H5T_INTEGER) {
    describe_integer(type, info);
  } else {
    info.name = class_name(type_class);
    if (type_class == H5T_STRING && variable) info.name = "variable-length string";
  }
  return info;
}

Handle make_type(const NumberFormat& format) {
  const Scope scope;
  const std::string where = "datatype " + format.name();
  const auto made = [&](std::int64_t id) { return own(id, where, ErrorCode::internal); };
  const auto done = [&](std::int64_t result) { check(result, where, ErrorCode::internal); };
  Handle type;
  if (format.kind == NumberKind::floating) {
    type = made(H5Tcopy(format.bytes == 8 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE));
    if (format.bytes == 2) {
      // Fields first: the precision may not shrink below them.
      const FloatLayout layout = layout_of(format);
      done(H5Tset_fields(type.get(), layout.sign, layout.exponent_at, layout.exponent_bits,
                         layout.mantissa_at, layout.mantissa_bits));
      done(H5Tset_precision(type.get(), layout.precision));
      done(H5Tset_size(type.get(), layout.bytes));
      done(H5Tset_ebias(type.get(), layout.bias));
    }
  } else {
    const bool is_signed = format.kind == NumberKind::signed_integer;
    type = made(H5Tcopy(is_signed ? H5T_STD_I64LE : H5T_STD_U64LE));
    done(H5Tset_precision(type.get(), format.bits()));
    done(H5Tset_size(type.get(), format.bytes));
  }
  done(H5Tset_order(type.get(), format.order == ByteOrder::little ? H5T_ORDER_LE : H5T_ORDER_BE));
  return type;
}

Handle make_string_type(std::size_t bytes) {
  const Scope scope;
  Handle type = own(H5Tcopy(H5T_C_S1), "string datatype", ErrorCode::internal);
  check(H5Tset_size(type.get(), bytes), "string datatype", ErrorCode::internal);
  check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "string datatype", ErrorCode::internal);
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), "string datatype", ErrorCode::internal);
  return type;
}

}  // namespace bitrift::h5
