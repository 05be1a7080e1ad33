#include "ckpt/format/half_byte_values.h"

#include <utility>

#include "core/error.h"

namespace bitrift::ckpt {
namespace {

constexpr unsigned half = 4;  // bits

}  // namespace

bool takes_half_a_byte(const NumberFormat& format) noexcept {
  return format.kind == NumberKind::floating && format.bits() == half;
}

HalfByteValues::HalfByteValues(std::unique_ptr<Values> inner) : inner_(std::move(inner)) {}

void HalfByteValues::read(std::uint64_t first, std::span<std::uint8_t> out) const {
  if (out.empty()) return;
  const std::uint64_t from = first / 2;
  const std::uint64_t to = (first + out.size() + 1) / 2;
  std::vector<std::uint8_t> stored(to - from);
  inner_->read(from, stored);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t element = first + i;
    out[i] = static_cast<std::uint8_t>(stored[element / 2 - from] >> (element % 2 * half) & 0xFU);
  }
}

Values::Spot HalfByteValues::locate(std::uint64_t byte) const {
  Spot spot = inner_->locate(byte / 2);
  if (spot.chunk || spot.seal) fail(ErrorCode::internal, "values of half a byte are stored as they are");
  spot.run = 2 * spot.run - byte % 2;
  spot.bit = static_cast<unsigned>(byte % 2 * half);
  return spot;
}

}  // namespace bitrift::ckpt
