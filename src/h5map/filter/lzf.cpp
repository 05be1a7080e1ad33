#include "h5map/filter/lzf.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"

namespace bitrift::h5map {
namespace {

constexpr std::size_t farthest = 1U << 13;
constexpr std::size_t longest = 2 + 7 + 255;
constexpr std::size_t most_literals = 32;
constexpr unsigned table_bits = 14;

std::size_t slot_of(std::span<const std::uint8_t> bytes, std::size_t at) {
  const std::uint32_t three =
      bytes[at] | std::uint32_t{bytes[at + 1]} << 8 | std::uint32_t{bytes[at + 2]} << 16;
  return (three * 2654435761U) >> (32 - table_bits);
}

void put_literals(std::span<const std::uint8_t> run, std::vector<std::uint8_t>& out) {
  while (!run.empty()) {
    const std::size_t count = std::min(run.size(), most_literals);
    out.push_back(static_cast<std::uint8_t>(count - 1));
    out.insert(out.end(), run.begin(), run.begin() + static_cast<std::ptrdiff_t>(count));
    run = run.subspan(count);
  }
}

void put_copy(std::size_t back, std::size_t length, std::vector<std::uint8_t>& out) {
  const std::size_t code = length - 2;
  const std::size_t high = (back - 1) >> 8;
  out.push_back(static_cast<std::uint8_t>(std::min<std::size_t>(code, 7) << 5 | high));
  if (code >= 7) out.push_back(static_cast<std::uint8_t>(code - 7));
  out.push_back(static_cast<std::uint8_t>((back - 1) & 0xff));
}

}  // namespace

std::vector<std::uint8_t> lzf_pack(std::span<const std::uint8_t> bytes) {
  constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();
  // the last place of these three bytes
  std::vector<std::size_t> last(std::size_t{1} << table_bits, nowhere);
  std::vector<std::uint8_t> out;
  out.reserve(bytes.size() + bytes.size() / most_literals + 1);
  std::size_t literals = 0;  // the beginning of the bytes that are not written yet
  std::size_t at = 0;
  while (at + 2 < bytes.size()) {
    std::size_t& entry = last[slot_of(bytes, at)];
    const std::size_t before = std::exchange(entry, at);
    if (before == nowhere || at - before > farthest ||
        !std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(before),
                    bytes.begin() + static_cast<std::ptrdiff_t>(before + 3),
                    bytes.begin() + static_cast<std::ptrdiff_t>(at))) {
      ++at;
      continue;
    }
    const std::size_t most = std::min(longest, bytes.size() - at);
    std::size_t length = 3;
    while (length < most && bytes[before + length] == bytes[at + length]) ++length;
    put_literals(bytes.subspan(literals, at - literals), out);
    put_copy(at - before, length, out);
    at += length;
    literals = at;
  }
  put_literals(bytes.subspan(literals), out);
  return out;
}

std::vector<std::uint8_t> lzf_unpack(std::span<const std::uint8_t> packed, std::uint64_t most) {
  std::vector<std::uint8_t> out;
  out.reserve(std::min<std::uint64_t>(most, packed.size() * longest));
  std::size_t at = 0;
  const auto next = [&]() -> std::size_t {
    if (at == packed.size()) fail(ErrorCode::bad_file, "LZF data ends too early");
    return packed[at++];
  };
  while (at < packed.size()) {
    const std::size_t control = next();
    std::size_t length = control + 1;
    std::size_t back = 0;
    if (control >= most_literals) {
      length = (control >> 5) + 2;
      if (length == 9) length += next();
      back = ((control & 0x1f) << 8 | next()) + 1;
    } else if (packed.size() - at < length) {
      fail(ErrorCode::bad_file, "LZF data ends too early");
    }
    if (length > most - out.size()) fail(ErrorCode::bad_file, "LZF data gives more than {} bytes", most);
    if (back > out.size()) fail(ErrorCode::bad_file, "LZF data copies from before its start");
    if (back == 0) {
      const auto run = packed.subspan(at, length);
      out.insert(out.end(), run.begin(), run.end());
      at += length;
    }
    // A copy may overlap itself, so it is made byte by byte.
    for (std::size_t i = 0; back != 0 && i < length; ++i) out.push_back(out[out.size() - back]);
  }
  return out;
}

}  // namespace bitrift::h5map
