#include "integrity/seal/seal_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ckpt/set/file_set.h"
#include "core/digest.h"
#include "core/error.h"
#include "core/process/parallel_for.h"
#include "integrity/seal/erasure_code.h"
#include "integrity/seal/make_seal.h"
#include "integrity/seal/tolerant_files.h"

namespace bitrift::integrity {
namespace {

constexpr std::uint64_t blocks_at_once = 64;       // a buffer of 256 KiB
constexpr std::uint64_t blocks_of_a_piece = 4096;  // of work for a thread

/// Reads `count` blocks from `first` on.
using ReadBlocks = std::function<void(std::uint64_t first, std::uint64_t count, std::uint8_t* out)>;

/// The blocks, of `count`, that do not have their digests, which begin at `digests`; their numbers begin at
/// `number`.
std::vector<std::uint64_t> differing(std::uint64_t count, const std::uint64_t* digests, std::uint64_t number,
                                     const ReadBlocks& read) {
  std::vector<std::vector<std::uint64_t>> found((count + blocks_of_a_piece - 1) / blocks_of_a_piece);
  parallel_for(found.size(), [&](std::size_t piece) {
    std::vector<std::uint8_t> buffer(blocks_at_once * seal_block_bytes);
    const std::uint64_t end = std::min(count, (piece + 1) * blocks_of_a_piece);
    for (std::uint64_t first = piece * blocks_of_a_piece; first < end; first += blocks_at_once) {
      const std::uint64_t here = std::min(blocks_at_once, end - first);
      read(first, here, buffer.data());
      for (std::uint64_t i = 0; i < here; ++i) {
        if (block_digest(buffer.data() + i * seal_block_bytes, seal_block_bytes, number + first + i) !=
            digests[first + i])
          found[piece].push_back(first + i);
      }
    }
  });
  std::vector<std::uint64_t> all;
  for (const auto& piece : found) all.insert(all.end(), piece.begin(), piece.end());
  return all;
}

std::vector<ResizedFile> resized_files(const TolerantFiles& files, std::uint64_t bytes) {
  std::vector<ResizedFile> found;
  const auto& parts = files.files().parts;
  for (std::size_t i = 0; i < std::max<std::size_t>(parts.size(), 1); ++i) {
    const std::uint64_t sealed = parts.empty() ? bytes : parts[i].bytes;
    if (files.bytes_now(i) != sealed)
      found.push_back({parts.empty() ? "" : parts[i].name, sealed, files.bytes_now(i)});
  }
  return found;
}

/// The damaged rows of a stripe.
struct StripeDamage {
  std::vector<unsigned> data, parity;
  bool operator==(const StripeDamage&) const = default;
};

std::map<std::uint64_t, StripeDamage> damage_by_stripe(const SealCheck& check) {
  const SealShape& shape = check.head.shape;
  std::map<std::uint64_t, StripeDamage> stripes;
  for (const std::uint64_t block : check.damaged) {
    if (!check.flipped.contains(block))
      stripes[block % shape.stripes()].data.push_back(static_cast<unsigned>(block / shape.stripes()));
  }
  for (const std::uint64_t block : check.damaged_parity) {
    const auto at = stripes.find(block % shape.stripes());
    if (at != stripes.end()) at->second.parity.push_back(static_cast<unsigned>(block / shape.stripes()));
  }
  return stripes;
}

/// The parity rows that are sound, as many as data rows are damaged.
std::vector<unsigned> usable_parity(const StripeDamage& damage, const SealShape& shape) {
  std::vector<unsigned> rows;
  for (unsigned row = 0; row < shape.parity_rows && rows.size() < damage.data.size(); ++row) {
    if (!std::binary_search(damage.parity.begin(), damage.parity.end(), row)) rows.push_back(row);
  }
  return rows;
}

/// The bit of a block whose flipping gives it its digest; nullopt if none does. A chance hit among all bits
/// has a probability of 2^-49.
std::optional<unsigned> flipped_bit(std::vector<std::uint8_t>& block, std::uint64_t number,
                                    std::uint64_t digest) {
  for (unsigned bit = 0; bit < 8 * seal_block_bytes; ++bit) {
    const auto mask = static_cast<std::uint8_t>(1U << bit % 8);
    block[bit / 8] ^= mask;
    const bool found = block_digest(block.data(), block.size(), number) == digest;
    block[bit / 8] ^= mask;
    if (found) return bit;
  }
  return std::nullopt;
}

/// Damaged blocks of stripes with too little parity.
std::vector<std::uint64_t> blocks_beyond_parity(const SealCheck& check) {
  std::vector<std::uint64_t> blocks;
  for (const auto& [stripe, damage] : damage_by_stripe(check)) {
    if (usable_parity(damage, check.head.shape).size() >= damage.data.size()) continue;
    for (const unsigned row : damage.data) blocks.push_back(check.head.shape.block(row, stripe));
  }
  return blocks;
}

void look_for_flips(const SealFile& seal, const TolerantFiles& files, SealCheck& check) {
  constexpr std::size_t most_blocks = 512;  // of some 10 ms each; then it was no flip here and there
  const auto blocks = blocks_beyond_parity(check);
  if (blocks.size() > most_blocks) return;
  std::vector<std::optional<unsigned>> bits(blocks.size());
  parallel_for(blocks.size(), [&](std::size_t i) {
    std::vector<std::uint8_t> block(seal_block_bytes);
    files.read(block.data(), block.size(), blocks[i] * seal_block_bytes);
    bits[i] = flipped_bit(block, blocks[i], seal.digests()[blocks[i]]);
  });
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (bits[i]) check.flipped.emplace(blocks[i], *bits[i]);
  }
}

/// Blocks of neighbouring stripes with the same damaged rows.
class StripeRebuilder {
 public:
  StripeRebuilder(const SealFile& seal, const TolerantFiles& files, const SealCheck& check)
      : seal_(seal), files_(files), flipped_(check.flipped) {}

  void rebuild(std::uint64_t first, std::uint64_t count, const StripeDamage& damage,
               const WriteBytes& write) const {
    const SealShape& shape = seal_.shape();
    const auto parity = usable_parity(damage, shape);
    const ErasureCode code(shape.data_rows, parity);
    const std::uint64_t bytes = count * seal_block_bytes;
    std::vector<std::uint8_t> piece(bytes), sums(parity.size() * bytes), out(sums.size());
    std::vector<std::uint8_t*> sum_rows, out_rows;
    for (std::size_t i = 0; i < parity.size(); ++i) {
      sum_rows.push_back(sums.data() + i * bytes);
      out_rows.push_back(out.data() + i * bytes);
      seal_.read_parity(parity[i], first, count, sum_rows[i]);
    }
    for (unsigned row = 0; row < shape.data_rows && shape.block(row, first) < shape.blocks(); ++row) {
      if (std::binary_search(damage.data.begin(), damage.data.end(), row)) continue;
      read(shape.block(row, first), piece);
      code.add(row, piece.data(), bytes, sum_rows);
    }
    code.solve(damage.data, bytes, sum_rows, out_rows);
    for (std::size_t i = 0; i < damage.data.size(); ++i)
      write_row(shape.block(damage.data[i], first), count, out_rows[i], write);
  }

  void put_flips_right(const WriteBytes& write) const {
    std::vector<std::uint8_t> block(seal_block_bytes);
    for (const auto& [number, bit] : flipped_) {
      read(number, block);
      write_row(number, 1, block.data(), write);
    }
  }

 private:
  /// With flipped bits put right.
  void read(std::uint64_t block, std::vector<std::uint8_t>& out) const {
    files_.read(out.data(), out.size(), block * seal_block_bytes);
    const std::uint64_t end = block + out.size() / seal_block_bytes;
    for (auto at = flipped_.lower_bound(block); at != flipped_.end() && at->first < end; ++at) {
      out[(at->first - block) * seal_block_bytes + at->second / 8] ^=
          static_cast<std::uint8_t>(1U << at->second % 8);
    }
  }

  void write_row(std::uint64_t block, std::uint64_t count, const std::uint8_t* data,
                 const WriteBytes& write) const {
    const SealShape& shape = seal_.shape();
    for (std::uint64_t i = 0; i < count; ++i) {
      if (block_digest(data + i * seal_block_bytes, seal_block_bytes, block + i) ==
          seal_.digests()[block + i])
        continue;
      fail(ErrorCode::conflict, "{}: block {} cannot be calculated from it: the result has another digest",
           seal_.head().files.root.string() + ".seal", block + i);
    }
    write(data, std::min(count * seal_block_bytes, shape.bytes - block * seal_block_bytes),
          block * seal_block_bytes);
  }

  const SealFile& seal_;
  const TolerantFiles& files_;
  const std::map<std::uint64_t, unsigned>& flipped_;
};

}  // namespace

std::vector<DamagedRange> damaged_ranges(const SealCheck& check) {
  const FileList& files = check.head.files;
  std::vector<DamagedRange> ranges;
  for (std::size_t i = 0; i < check.damaged.size();) {
    std::uint64_t first = check.damaged[i] * seal_block_bytes;
    std::uint64_t end = first;
    for (; i < check.damaged.size() && check.damaged[i] * seal_block_bytes == end; ++i)
      end += seal_block_bytes;
    end = std::min(end, check.head.shape.bytes);
    while (first < end) {
      const std::size_t part = files.part_of(first);
      const std::uint64_t here = files.several() ? std::min(end, files.parts[part].end()) : end;
      ranges.push_back({files.several() ? files.parts[part].name : "", files.within(first), here - first});
      first = here;
    }
  }
  return ranges;
}

std::optional<SealCheck> check_seal(const std::filesystem::path& checkpoint) {
  const auto seal = seal_path(checkpoint);
  std::error_code none;
  if (!std::filesystem::exists(seal, none)) return std::nullopt;
  return compare_with_seal(seal, ckpt::root_of_set(checkpoint));
}

SealCheck compare_with_seal(const std::filesystem::path& file, const std::filesystem::path& root) {
  SealCheck check;
  check.file = file;
  try {
    const SealFile seal(file, root);
    check.head = seal.head();
    const SealShape& shape = seal.shape();
    const TolerantFiles files(check.head.files, shape.bytes);
    check.resized = resized_files(files, shape.bytes);
    const std::uint64_t* const digests = seal.digests().data();
    check.damaged = differing(shape.blocks(), digests, 0,
                              [&](std::uint64_t first, std::uint64_t count, std::uint8_t* out) {
                                files.read(out, count * seal_block_bytes, first * seal_block_bytes);
                              });
    // Parity rows follow each other without gaps, so they can be read through.
    check.damaged_parity = differing(shape.parity_blocks(), digests + shape.blocks(), shape.blocks(),
                                     [&](std::uint64_t first, std::uint64_t count, std::uint8_t* out) {
                                       seal.read_parity(0, first, count, out);
                                     });
    check.seal_damaged = seal.damaged() || !check.damaged_parity.empty();
    look_for_flips(seal, files, check);
    check.lost = blocks_beyond_parity(check).size();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_file) throw;
    check.unusable = error.what();
  }
  return check;
}

void rebuild_blocks(const SealCheck& check, const WriteBytes& write) {
  const SealFile seal(check.file, check.head.files.root);
  const TolerantFiles files(check.head.files, check.head.shape.bytes);
  const StripeRebuilder rebuilder(seal, files, check);
  rebuilder.put_flips_right(write);
  const auto stripes = damage_by_stripe(check);
  for (auto at = stripes.begin(); at != stripes.end();) {
    const auto& [first, damage] = *at;
    std::uint64_t count = 0;
    for (;
         at != stripes.end() && count < blocks_at_once && at->first == first + count && at->second == damage;
         ++at)
      ++count;
    rebuilder.rebuild(first, count, damage, write);
  }
}

}  // namespace bitrift::integrity
