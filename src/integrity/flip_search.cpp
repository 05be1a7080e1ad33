#include "integrity/flip_search.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include <fcntl.h>

#include "archive/crc32.h"
#include "archive/raw_deflate.h"
#include "ckpt/reader.h"
#include "core/byte_cursor.h"
#include "core/error.h"
#include "core/file.h"
#include "core/process/parallel_for.h"
#include "h5map/filter/codec.h"
#include "h5map/h5_file.h"
#include "integrity/flipped_bits.h"

namespace bitrift::integrity {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Candidates = std::vector<std::vector<FileBit>>;

constexpr double sums_of_crc = 4294967296.0;
/// The share of pairs of flips in one word of four bytes that look like a single flip, as measured
/// (docs/repair.md).
constexpr double fletcher_pairs = 0.031;
constexpr double most_chance_of_pairs = 0.01;
constexpr double most_decoded = 137438953472.0;  // 2^37
constexpr unsigned fletcher_bytes = 4;
constexpr std::uint32_t fletcher_modulus = 65535;

Explanation failed(std::string why) { return {{}, std::nullopt, std::move(why)}; }

constexpr const char* no_flips = "no single flipped bit explains the sum, nor two in one word of four bytes";
constexpr const char* no_flip = "no single flipped bit explains the sum";

using PlaceOf = std::function<std::uint64_t(std::uint64_t byte)>;

/// Explains bytes whose CRC is `difference` off; place: where a byte is in the file.
Explanation explain_crc(CrcKind kind, std::uint32_t difference, std::uint64_t bytes, const PlaceOf& place) {
  Candidates found;
  for (const MessageBit& one : single_flips(kind, difference, bytes))
    found.push_back({{place(one.byte), one.bit}});
  if (!found.empty())
    return only_explanation(found, 8.0 * static_cast<double>(bytes) / sums_of_crc, no_flips);
  constexpr double pairs_of_word = 32.0 * 31 / 2;
  const double chance = pairs_of_word * static_cast<double>(bytes) / 4 / sums_of_crc;
  if (chance > most_chance_of_pairs)
    return failed(
        fmt::format("{}; pairs of bits are not tried, because one of them would fit by chance with a "
                    "probability of {:.2g} %",
                    no_flip, 100 * std::min(chance, 1.0)));
  for (const BitPair& two : double_flips(kind, difference, bytes))
    found.push_back({{place(two[0].byte), two[0].bit}, {place(two[1].byte), two[1].bit}});
  return only_explanation(found, chance, no_flips);
}

/// Flips each bit of stored bytes, and asks whether they are sound then. `decoded`: bytes that one answer
/// makes.
Explanation explain_by_trial(const Bytes& stored, std::uint64_t first, std::uint64_t decoded,
                             const std::function<bool(const Bytes&)>& sound) {
  const double bits = 8.0 * static_cast<double>(stored.size());
  if (bits * static_cast<double>(decoded) > most_decoded) {
    return failed(
        fmt::format("its {} packed bytes are too many: each bit would have to be tried, and {} bytes "
                    "unpacked each time",
                    stored.size(), decoded));
  }
  constexpr std::size_t block = 64;
  const std::size_t blocks = (stored.size() + block - 1) / block;
  Candidates found;
  std::mutex lock;
  parallel_for(
      blocks,
      [&](std::size_t i) {
        Bytes tried = stored;
        for (std::size_t byte = i * block; byte < std::min(stored.size(), (i + 1) * block); ++byte) {
          for (unsigned bit = 0; bit < 8; ++bit) {
            tried[byte] ^= static_cast<std::uint8_t>(1U << bit);
            if (sound(tried)) {
              const std::lock_guard guard(lock);
              found.push_back({{first + byte, bit}});
            }
            tried[byte] ^= static_cast<std::uint8_t>(1U << bit);
          }
        }
      },
      stored.size() + decoded);
  std::sort(found.begin(), found.end());
  return only_explanation(found, bits / sums_of_crc, no_flip);
}

/// a - b modulo 65535; 65535 is 0.
std::uint32_t fletcher_difference(std::uint32_t a, std::uint32_t b) {
  return (a % fletcher_modulus + fletcher_modulus - b % fletcher_modulus) % fletcher_modulus;
}

/// A flipped bit b of word i of n adds d = +-2^b to the first sum, and (n - i) d to the second, modulo 65535
/// (docs/repair.md). `stored`: a chunk, followed by its sum.
Candidates fletcher_candidates(const Bytes& stored, std::uint64_t first) {
  const std::span<const std::uint8_t> covered(stored.data(), stored.size() - fletcher_bytes);
  const std::uint32_t sum = h5map::fletcher32(covered);
  const std::uint32_t expected =
      ByteCursor({stored.data() + covered.size(), fletcher_bytes}, "", "sum").u32();
  Candidates found;
  if (std::has_single_bit(sum ^ expected)) {
    const auto bit = static_cast<unsigned>(std::countr_zero(sum ^ expected));
    found.push_back({{first + covered.size() + bit / 8, bit % 8}});
  }
  const std::uint32_t one = fletcher_difference(expected & 0xffffU, sum & 0xffffU);
  const std::uint32_t two = fletcher_difference(expected >> 16U, sum >> 16U);
  const std::uint64_t words = (covered.size() + 1) / 2;
  for (unsigned bit = 0; bit < 16; ++bit) {
    for (const bool rises : {false, true}) {
      const std::uint32_t step = std::uint32_t{1} << bit;
      if (one != (rises ? step : fletcher_modulus - step)) continue;
      // 2^16 is 1, so 2^(16 - bit) undoes 2^bit.
      const std::uint64_t undone = std::uint64_t{two} * (std::uint64_t{1} << (16 - bit)) % fletcher_modulus;
      const std::uint64_t from_end = rises ? undone : (fletcher_modulus - undone) % fletcher_modulus;
      for (std::uint64_t m = from_end == 0 ? fletcher_modulus : from_end; m <= words; m += fletcher_modulus) {
        const std::uint64_t byte = 2 * (words - m) + (bit < 8 ? 1 : 0);  // the high byte comes first
        if (byte >= covered.size()) continue;
        const bool set = (covered[byte] >> (bit % 8) & 1U) != 0;
        if (set != rises) found.push_back({{first + byte, bit % 8}});
      }
    }
  }
  return found;
}

}  // namespace

struct FlipSearch::State {
  explicit State(std::filesystem::path path) : file(std::move(path)), fd(open_file(file, O_RDONLY)) {}

  [[nodiscard]] Bytes stored(std::uint64_t first, std::uint64_t bytes) const {
    Bytes found(bytes);
    read_at(fd, found.data(), found.size(), first, file);
    return found;
  }

  /// Opened when it is needed: not all archives with damaged members can be.
  [[nodiscard]] const ckpt::Reader& opened() {
    if (!reader) reader.emplace(file);
    return *reader;
  }

  [[nodiscard]] Explanation explain(const SummedPart& part, const MemberPlace& member) const {
    if (!member.deflated) {
      return explain_crc(CrcKind::crc32, part.found ^ part.expected, member.bytes,
                         [&](std::uint64_t byte) { return member.first + byte; });
    }
    return explain_by_trial(stored(member.first, member.bytes), member.first, member.decoded_bytes,
                            [&](const Bytes& tried) {
                              try {
                                const Bytes values = archive::inflate_raw(tried, member.decoded_bytes);
                                return archive::crc32(values) == part.expected;
                              } catch (const Error&) {
                                return false;
                              }
                            });
  }

  [[nodiscard]] Explanation explain(const SummedPart& part, const ChunkPlace& place) {
    const auto& datasets = opened().container().hdf5()->datasets();
    const auto dataset = std::find_if(datasets.begin(), datasets.end(),
                                      [&](const auto& one) { return one.path == place.dataset; });
    const std::vector<h5map::Filter>& filters = dataset->layout.filters;
    if (!h5map::codec_knows(filters, place.chunk.mask)) return failed("its filters are left to HDF5");
    std::uint64_t decoded = dataset->layout.chunked.element_bytes;
    for (const std::uint64_t extent : dataset->layout.chunked.chunk) decoded *= extent;
    const auto sound = [&](const Bytes& tried) {
      try {
        (void)h5map::decode_chunk(filters, place.chunk.mask, tried, decoded, "");
        return true;
      } catch (const Error&) {
        return false;
      }
    };
    const Bytes bytes = stored(place.chunk.offset, place.chunk.bytes);
    const bool last = filters.back().id == h5map::filter_fletcher32 && filters.size() <= 32 &&
                      (place.chunk.mask >> (filters.size() - 1) & 1U) == 0;
    if (part.kind != SumKind::fletcher32 || !last || bytes.size() < fletcher_bytes)
      return explain_by_trial(bytes, place.chunk.offset, decoded, sound);
    Candidates found = fletcher_candidates(bytes, place.chunk.offset);
    std::erase_if(found, [&](const auto& bits) {
      Bytes tried = bytes;
      tried[bits.front().offset - place.chunk.offset] ^= static_cast<std::uint8_t>(1U << bits.front().bit);
      return !sound(tried);
    });
    const bool packed = std::any_of(filters.begin(), filters.end(),
                                    [](const auto& one) { return one.id == h5map::filter_deflate; });
    const double by_decoding = 8.0 * static_cast<double>(bytes.size()) / sums_of_crc;
    return only_explanation(found, packed ? by_decoding : fletcher_pairs, no_flip);
  }

  [[nodiscard]] Explanation explain(const SummedPart& part, const ValuesPlace& place) {
    const ckpt::TensorInfo& tensor = *opened().find(place.tensor);
    const ckpt::Values& values = opened().values(tensor);
    if (tensor.storage == "chunked+filters")
      return failed("its chunks are packed, and the sum is that of the values");
    const std::uint32_t difference = part.found ^ part.expected;
    if (std::has_single_bit(difference)) {
      const auto bit = static_cast<unsigned>(std::countr_zero(difference));
      const ckpt::Values& sums = opened().values(*opened().find("checksum/crc32c"));
      const std::uint64_t element = opened().checksum(place.tensor)->element;
      const std::uint64_t at = sums.locate(fletcher_bytes * element + bit / 8).at;
      return {{{at, bit % 8}}, 32 / sums_of_crc, ""};
    }
    return explain_crc(CrcKind::crc32c, difference, values.bytes(),
                       [&](std::uint64_t byte) { return values.locate(byte).at; });
  }

  std::filesystem::path file;
  FileDescriptor fd;
  std::optional<ckpt::Reader> reader;
};

FlipSearch::FlipSearch(const std::filesystem::path& file) : state_(std::make_unique<State>(file)) {}
FlipSearch::~FlipSearch() = default;

Explanation FlipSearch::explain(const SummedPart& part) const {
  return std::visit([&](const auto& place) { return state_->explain(part, place); }, part.place);
}

}  // namespace bitrift::integrity
