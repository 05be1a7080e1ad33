// The filters of chunks, without HDF5: deflate, shuffle, fletcher32 and LZF.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "h5map/structure/storage_layout.h"

namespace bitrift::h5map {

/// Identifiers of filters, as HDF5 registers them.
enum FilterId : unsigned {
  filter_deflate = 1,
  filter_shuffle = 2,
  filter_fletcher32 = 3,
  filter_szip = 4,
  filter_nbit = 5,
  filter_scale_offset = 6,
  filter_lzf = 32000,
};

/// Whether decode_chunk() and encode_chunk() know every filter that `mask` does not skip.
[[nodiscard]] bool codec_knows(std::span<const Filter> filters, std::uint32_t mask) noexcept;

/// Throws Error(bad_file) when this many stored bytes cannot hold a chunk of this size, whatever they are:
/// deflate makes at most 1032 bytes of one, LZF 88.
void check_claim(std::span<const Filter> filters, std::uint32_t mask, std::uint64_t stored_bytes,
                 std::uint64_t chunk_bytes, const std::string& where);

/// The values in a stored chunk: filters are undone in reverse order, except those that `mask` skips (bit i:
/// filter i). Returns exactly `chunk_bytes` bytes and never holds much more, whatever the stored bytes are.
/// `where` names file, dataset and chunk in messages. Throws Error(bad_file) for damaged data, which includes
/// a wrong fletcher32 sum, and Error(unsupported) for a filter that codec_knows() does not know. Any number
/// of threads may call it at once.
[[nodiscard]] std::vector<std::uint8_t> decode_chunk(std::span<const Filter> filters, std::uint32_t mask,
                                                     std::span<const std::uint8_t> stored,
                                                     std::uint64_t chunk_bytes, const std::string& where);

/// The stored form of a chunk's values under the same filters; decode_chunk() returns `values` again. If it
/// takes more than `room` bytes, deflate tries harder. Throws Error(unsupported) as decode_chunk().
[[nodiscard]] std::vector<std::uint8_t> encode_chunk(std::span<const Filter> filters, std::uint32_t mask,
                                                     std::span<const std::uint8_t> values, std::uint64_t room,
                                                     const std::string& where);

/// Alters values of a chunk in place.
using ValueChange = std::function<void(std::span<std::uint8_t> values)>;

/// The stored form of a chunk, whose values `change` alters in place, under the same filters. In deflated
/// data only what changes is packed again where that is possible, so that most stored bytes and their number
/// stay the same (deflate_again()). Throws as decode_chunk(), and what `change` throws.
[[nodiscard]] std::vector<std::uint8_t> recode_chunk(std::span<const Filter> filters, std::uint32_t mask,
                                                     std::span<const std::uint8_t> stored,
                                                     std::uint64_t chunk_bytes, const ValueChange& change,
                                                     const std::string& where);

/// HDF5's variant of Fletcher's checksum: 16-bit words, high byte first (H5_checksum_fletcher32).
[[nodiscard]] std::uint32_t fletcher32(std::span<const std::uint8_t> bytes) noexcept;

}  // namespace bitrift::h5map
