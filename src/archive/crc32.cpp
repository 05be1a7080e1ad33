#include "archive/crc32.h"

#include <libdeflate.h>

#include "core/crc_algebra.h"

namespace bitrift::archive {

using Algebra = CrcAlgebra<0xEDB88320>;

std::uint32_t crc32(std::span<const std::uint8_t> bytes, std::uint32_t before) noexcept {
  // For a null pointer, which an empty span may have, libdeflate gives the initial value.
  return bytes.empty() ? before : libdeflate_crc32(before, bytes.data(), bytes.size());
}

std::uint32_t crc32_xor(std::uint32_t crc, std::span<const std::uint8_t> difference,
                        std::uint64_t bytes_after) noexcept {
  const std::uint32_t delta = Algebra::update(0, difference.data(), difference.size());
  return crc ^ Algebra::multiply(delta, Algebra::power_of_zeros(bytes_after));
}

std::uint32_t crc32_join(std::uint32_t first, std::uint32_t second, std::uint64_t bytes_of_second) noexcept {
  return Algebra::multiply(first, Algebra::power_of_zeros(bytes_of_second)) ^ second;
}

}  // namespace bitrift::archive
