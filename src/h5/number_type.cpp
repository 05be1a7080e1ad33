#include "h5/number_type.h"

#include <hdf5.h>

#include "h5/library.h"

namespace bitrift::h5 {
namespace {

/// Everything that determines the meaning of a floating type's bits.
struct FloatLayout {
  std::size_t sign = 0, exponent_at = 0, exponent_bits = 0, mantissa_at = 0, mantissa_bits = 0;
  std::size_t precision = 0, bytes = 0, bias = 0;
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

}  // namespace

Handle make_type(const NumberFormat& format) {
  const Scope scope;
  const std::string where = "datatype " + format.name();
  const auto made = [&](std::int64_t id) { return own(id, where, ErrorCode::internal); };
  const auto done = [&](std::int64_t result) { check(result, where, ErrorCode::internal); };
  Handle type;
  if (format.kind == NumberKind::floating) {
    type = made(H5Tcopy(format.bytes == 8 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE));
    if (format.bytes < 4) {
      // The fields come first: the precision may not shrink below them.
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
    if (format.bit_offset != 0) done(H5Tset_offset(type.get(), format.bit_offset));
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
