#include "h5map/filter/codec.h"

#include <algorithm>
#include <utility>

#include "core/byte_cursor.h"
#include "core/error.h"
#include "h5map/filter/deflate.h"
#include "h5map/filter/lzf.h"

namespace bitrift::h5map {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// Byte b of every element goes to plane b; the bytes of an incomplete last element are copied to the end
/// (H5Zshuffle.c).
Bytes shuffle(std::span<const std::uint8_t> bytes, std::size_t width, bool undo) {
  Bytes out(bytes.begin(), bytes.end());
  const std::size_t count = width == 0 ? 0 : bytes.size() / width;
  for (std::size_t b = 0; width > 1 && b < width; ++b) {
    const std::size_t plane = b * count;
    for (std::size_t i = 0; i < count; ++i) {
      if (undo) {
        out[i * width + b] = bytes[plane + i];
      } else {
        out[plane + i] = bytes[i * width + b];
      }
    }
  }
  return out;
}

Bytes without_sum(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < 4) fail(ErrorCode::bad_file, "data is too short for its fletcher32 sum");
  const auto covered = bytes.first(bytes.size() - 4);
  const std::uint32_t stored = ByteCursor(bytes.last(4), "", "fletcher32 sum").u32();
  const std::uint32_t sum = fletcher32(covered);
  // HDF5 up to 1.6.2 wrote the bytes of both halves in reverse; current versions still read that
  // (H5Zfletcher32.c).
  const std::uint32_t reversed = (sum & 0x00ff00ffU) << 8 | (sum & 0xff00ff00U) >> 8;
  if (!sums_agree(stored, sum) && stored != reversed) {
    fail(ErrorCode::bad_file, "fletcher32 sum is {:08x}, that of the data {:08x}", stored, sum);
  }
  return {covered.begin(), covered.end()};
}

Bytes with_sum(std::span<const std::uint8_t> bytes) {
  const std::uint32_t sum = fletcher32(bytes);
  Bytes out(bytes.size() + 4);
  std::copy(bytes.begin(), bytes.end(), out.begin());
  for (unsigned i = 0; i < 4; ++i) out[bytes.size() + i] = static_cast<std::uint8_t>(sum >> (8 * i));
  return out;
}

std::uint32_t value_of(const Filter& filter, const char* what) {
  if (filter.values.empty()) fail(ErrorCode::bad_file, "filter {} has no {}", filter.id, what);
  return filter.values[0];
}

/// The input and the output of a filter when a chunk was written.
struct Stage {
  Bytes before, after;
};

/// `stage`: where to keep the input and output of deflate, which are needed to pack it again; or nullptr.
Bytes undo(const Filter& filter, std::span<const std::uint8_t> bytes, std::uint64_t most, Stage* stage) {
  switch (filter.id) {
    case filter_deflate: {
      std::size_t taken = 0;
      Bytes inflated = inflate_bytes(bytes, most, &taken);
      if (stage != nullptr)
        *stage = {inflated, {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(taken)}};
      return inflated;
    }
    case filter_shuffle:
      return shuffle(bytes, value_of(filter, "element size"), true);
    case filter_fletcher32:
      return without_sum(bytes);
    default:
      return lzf_unpack(bytes, most);
  }
}

/// `stage`: the data that undo() kept for this filter, which are consumed; or nullptr.
Bytes apply(const Filter& filter, std::span<const std::uint8_t> bytes, std::uint64_t room, Stage* stage) {
  switch (filter.id) {
    case filter_deflate: {
      const std::uint32_t level = value_of(filter, "level");
      const bool same_size = stage != nullptr && stage->before.size() == bytes.size();
      return same_size ? deflate_again(stage->after, std::move(stage->before), bytes, level, room)
                       : deflate_bytes(bytes, level, room);
    }
    case filter_shuffle:
      return shuffle(bytes, value_of(filter, "element size"), false);
    case filter_fletcher32:
      return with_sum(bytes);
    default:
      return lzf_pack(bytes);
  }
}

bool left_out(std::uint32_t mask, std::size_t i) noexcept { return i < 32 && (mask >> i & 1U) != 0; }

bool knows(const Filter& filter) noexcept {
  return filter.id == filter_deflate || filter.id == filter_shuffle || filter.id == filter_fletcher32 ||
         filter.id == filter_lzf;
}

void check_known(std::span<const Filter> filters, std::uint32_t mask, const std::string& where) {
  for (std::size_t i = 0; i < filters.size(); ++i) {
    if (!left_out(mask, i) && !knows(filters[i])) {
      fail(ErrorCode::unsupported, "{}: filter {} is left to HDF5", where, filters[i].id);
    }
  }
}

/// `stages`: as many as filters, or none.
Bytes decode(std::span<const Filter> filters, std::uint32_t mask, std::span<const std::uint8_t> stored,
             std::uint64_t chunk_bytes, std::span<Stage> stages, const std::string& where) {
  check_known(filters, mask, where);
  // Between two filters a chunk may be larger than its values: because of sums, or because packing did not
  // help.
  const std::uint64_t most = chunk_bytes + chunk_bytes / 16 + 1024;
  Bytes bytes;
  bool any = false;
  try {
    for (std::size_t i = filters.size(); i-- > 0;) {
      if (left_out(mask, i)) continue;
      Stage* const stage = stages.empty() ? nullptr : &stages[i];
      bytes = undo(filters[i], any ? bytes : stored, i == 0 ? chunk_bytes : most, stage);
      any = true;
    }
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", where, error.what());
  }
  if (!any) bytes.assign(stored.begin(), stored.end());
  if (bytes.size() != chunk_bytes) {
    fail(ErrorCode::bad_file, "{}: holds {} bytes of values, not {}", where, bytes.size(), chunk_bytes);
  }
  return bytes;
}

Bytes encode(std::span<const Filter> filters, std::uint32_t mask, std::span<const std::uint8_t> values,
             std::uint64_t room, std::span<Stage> stages, const std::string& where) {
  check_known(filters, mask, where);
  Bytes bytes;
  bool any = false;
  try {
    for (std::size_t i = 0; i < filters.size(); ++i) {
      if (left_out(mask, i)) continue;
      bytes = apply(filters[i], any ? bytes : values, room, stages.empty() ? nullptr : &stages[i]);
      any = true;
    }
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", where, error.what());
  }
  if (!any) bytes.assign(values.begin(), values.end());
  return bytes;
}

}  // namespace

std::uint32_t fletcher32(std::span<const std::uint8_t> bytes) noexcept {
  std::uint32_t one = 0;
  std::uint32_t two = 0;
  const auto fold = [](std::uint32_t sum) { return (sum & 0xffff) + (sum >> 16); };
  // Sums of at most 360 words cannot overflow 32 bits.
  while (bytes.size() >= 2) {
    const std::size_t words = std::min<std::size_t>(360, bytes.size() / 2);
    for (std::size_t i = 0; i < words; ++i) {
      one += std::uint32_t{bytes[2 * i]} << 8 | bytes[2 * i + 1];
      two += one;
    }
    one = fold(one);
    two = fold(two);
    bytes = bytes.subspan(2 * words);
  }
  if (!bytes.empty()) {
    one += std::uint32_t{bytes[0]} << 8;
    two += one;
    one = fold(one);
    two = fold(two);
  }
  return fold(two) << 16 | fold(one);
}

bool codec_knows(std::span<const Filter> filters, std::uint32_t mask) noexcept {
  for (std::size_t i = 0; i < filters.size(); ++i) {
    if (!left_out(mask, i) && !knows(filters[i])) return false;
  }
  return true;
}

void check_claim(std::span<const Filter> filters, std::uint32_t mask, std::uint64_t stored_bytes,
                 std::uint64_t chunk_bytes, const std::string& where) {
  std::uint64_t most = stored_bytes;
  for (std::size_t i = 0; i < filters.size(); ++i) {
    if (left_out(mask, i)) continue;
    const unsigned id = filters[i].id;
    // Two bits can produce 258 bytes (RFC 1951, a copy of the greatest length); three bytes can produce 264
    // (liblzf).
    const std::uint64_t grows = id == filter_deflate ? 1032 : id == filter_lzf ? 88 : 1;
    if (__builtin_mul_overflow(most, grows, &most)) return;
  }
  if (chunk_bytes > most) {
    fail(ErrorCode::bad_file, "{}: claims {} bytes of values, and its {} stored ones hold {} at most", where,
         chunk_bytes, stored_bytes, most);
  }
}

std::vector<std::uint8_t> decode_chunk(std::span<const Filter> filters, std::uint32_t mask,
                                       std::span<const std::uint8_t> stored, std::uint64_t chunk_bytes,
                                       const std::string& where) {
  return decode(filters, mask, stored, chunk_bytes, {}, where);
}

std::vector<std::uint8_t> encode_chunk(std::span<const Filter> filters, std::uint32_t mask,
                                       std::span<const std::uint8_t> values, std::uint64_t room,
                                       const std::string& where) {
  return encode(filters, mask, values, room, {}, where);
}

std::vector<std::uint8_t> recode_chunk(std::span<const Filter> filters, std::uint32_t mask,
                                       std::span<const std::uint8_t> stored, std::uint64_t chunk_bytes,
                                       const ValueChange& change, const std::string& where) {
  std::vector<Stage> stages(filters.size());
  Bytes values = decode(filters, mask, stored, chunk_bytes, stages, where);
  change(values);
  return encode(filters, mask, values, stored.size(), stages, where);
}

}  // namespace bitrift::h5map
