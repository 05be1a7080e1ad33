#include "integrity/structure_search.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "archive/bounded_file.h"
#include "archive/zip_directory.h"
#include "ckpt/container/open_container.h"
#include "core/error.h"
#include "core/process/parallel_for.h"
#include "integrity/member_sums.h"

namespace bitrift::integrity {
namespace {

using archive::BoundedFile;
using Bytes = std::vector<std::uint8_t>;

constexpr double most_headers = 1e8;

/// A record of a zip archive (APPNOTE.TXT 6.3.10, 4.3): its signature, its fixed bytes, and the places of the
/// two byte counts of the name and the extra field that follow.
struct Record {
  std::uint32_t signature = 0;
  std::uint64_t fixed = 0;
  std::uint64_t name_at = 0, extra_at = 0;  // 0: nothing follows
};
constexpr std::array<Record, 6> records = {{{0x04034b50, 30, 26, 28},  // local header
                                            {0x02014b50, 46, 28, 30},  // header in the central directory
                                            {0x08074b50, 24, 0, 0},    // data descriptor
                                            {0x06054b50, 22, 0, 0},    // end of the central directory
                                            {0x06064b50, 56, 0, 0},    // the same in ZIP64
                                            {0x07064b50, 20, 0, 0}}};  // its locator
constexpr std::size_t central_header = 1;

/// Bytes [first, end) that look like a record.
struct Region {
  std::uint64_t first = 0, end = 0;
};

struct Structure {
  std::vector<Region> regions;  // ascending, disjoint
  std::uint64_t headers = 0;    // of the central directory
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const Region& region : regions) sum += region.end - region.first;
    return sum;
  }
};

std::uint64_t field(const BoundedFile& file, std::uint64_t at) {
  std::array<std::uint8_t, 2> bytes{};
  if (at + 2 <= file.size()) file.read(at, bytes, "a header");
  return bytes[0] | std::uint64_t{bytes[1]} << 8U;
}

Region region_of(const BoundedFile& file, const Record& record, std::uint64_t first) {
  // A flipped bit may have made the counts large.
  constexpr std::uint64_t most_name = 512, most_extra = 64;
  std::uint64_t end = first + record.fixed;
  if (record.name_at > 0) {
    end += std::min(field(file, first + record.name_at), most_name);
    end += std::min(field(file, first + record.extra_at), most_extra);
  }
  return {first, std::min(end, file.size())};
}

/// Finds records by their signatures, in which one bit may be flipped.
Structure structure_of(const BoundedFile& file) {
  constexpr std::uint64_t piece = std::uint64_t{1} << 20U;
  Structure found;
  std::vector<Region> regions;
  Bytes bytes;
  for (std::uint64_t at = 0; at + 4 <= file.size(); at += piece) {
    bytes.resize(std::min(piece + 3, file.size() - at));
    file.read(at, bytes, "the archive");
    for (std::size_t i = 0; i + 4 <= bytes.size(); ++i) {
      std::uint32_t word = 0;
      std::memcpy(&word, bytes.data() + i, 4);
      for (const Record& record : records) {
        if (std::popcount(word ^ record.signature) > 1) continue;
        regions.push_back(region_of(file, record, at + i));
        if (&record == &records[central_header]) ++found.headers;
      }
    }
  }
  std::sort(regions.begin(), regions.end(),
            [](const Region& a, const Region& b) { return a.first < b.first; });
  for (const Region& region : regions) {
    if (!found.regions.empty() && region.first <= found.regions.back().end) {
      found.regions.back().end = std::max(found.regions.back().end, region.end);
    } else {
      found.regions.push_back(region);
    }
  }
  return found;
}

/// Whether the archive is sound with this bit flipped.
bool sound_with(const std::filesystem::path& path, const FileBit& bit) {
  auto file = std::make_unique<BoundedFile>(path);
  file->flip(bit.offset, bit.bit);
  try {
    const auto container = ckpt::open_archive(std::move(file));
    const auto parts = check_members(*container->zip(), path);
    const bool fit =
        std::all_of(parts.begin(), parts.end(), [](const auto& one) { return one.damage.empty(); });
    if (fit) (void)container->blocks();
    return fit;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::bad_file || error.code() == ErrorCode::unsupported) return false;
    throw;
  }
}

}  // namespace

Explanation explain_structure(const std::filesystem::path& file) {
  const Structure structure = structure_of(BoundedFile(file));
  const auto bits = 8.0 * static_cast<double>(structure.bytes());
  if (bits * static_cast<double>(structure.headers) > most_headers) {
    return {{},
            std::nullopt,
            fmt::format("its {} headers are too many: each of their bits would have to be tried",
                        structure.headers)};
  }
  std::vector<std::vector<FileBit>> found;
  std::mutex lock;
  parallel_for(structure.regions.size(), [&](std::size_t i) {
    for (std::uint64_t offset = structure.regions[i].first; offset < structure.regions[i].end; ++offset) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        if (!sound_with(file, {offset, bit})) continue;
        const std::lock_guard guard(lock);
        found.push_back({{offset, bit}});
      }
    }
  });
  std::sort(found.begin(), found.end());
  return only_explanation(found, std::nullopt, "no single flipped bit in its headers explains it");
}

}  // namespace bitrift::integrity
