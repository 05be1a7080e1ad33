#include "h5map/chunk/rewrite.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace bitrift::h5map {
namespace {

constexpr std::uint64_t alignment = 8;  // size that HDF5 itself allocates

std::vector<std::uint8_t> little_endian(std::uint64_t value, unsigned bytes) {
  std::vector<std::uint8_t> out(bytes);
  for (std::uint8_t& byte : out) {
    byte = static_cast<std::uint8_t>(value);
    value >>= 8;
  }
  return out;
}

}  // namespace

Rewrite::Rewrite(const Source& source, const Superblock& superblock)
    : source_(&source), superblock_(superblock), end_(source.size()) {}

void Rewrite::insert(std::uint64_t offset, std::vector<std::uint8_t> bytes) {
  if (bytes.empty()) return;
  const auto after = changes_.lower_bound(offset);
  const bool meets_next = after != changes_.end() && after->first - offset < bytes.size();
  const bool meets_last =
      after != changes_.begin() && std::prev(after)->first + std::prev(after)->second.size() > offset;
  if (meets_next || meets_last) {
    fail(ErrorCode::conflict, "{}: bytes {} to {} would be altered twice; two parts of the file share them",
         source_->name(), offset, offset + bytes.size());
  }
  changes_.emplace_hint(after, offset, std::move(bytes));
}

void Rewrite::put(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  source_->check(offset, bytes.size(), "an alteration");
  insert(offset, {bytes.begin(), bytes.end()});
}

void Rewrite::put(const Field& field, std::uint64_t value) {
  if (field.bytes < 8 && value >> (8 * field.bytes) != 0) {
    fail(ErrorCode::unsupported, "{}: {} does not fit the {} bytes that the file has for it at byte {}",
         source_->name(), value, field.bytes, field.offset);
  }
  put(field.offset, little_endian(value, field.bytes));
  if (field.seal) touch(*field.seal);
}

void Rewrite::put_chunk(const ChunkTable& table, const Chunk& chunk, std::vector<std::uint8_t> stored,
                        std::uint32_t mask) {
  const ChunkFields fields = table.fields(chunk);
  if (stored.empty() || ((!chunk.filtered || fields.bytes.bytes == 0) && stored.size() != chunk.bytes)) {
    fail(ErrorCode::internal, "{}: chunk of {} bytes without filters was given {}", source_->name(),
         chunk.bytes, stored.size());
  }
  if (mask != chunk.mask) put(fields.mask, mask);
  if (stored.size() != chunk.bytes) put(fields.bytes, stored.size());
  if (stored.size() <= chunk.bytes) {
    source_->check(chunk.offset, stored.size(), "an alteration");
    insert(chunk.offset, std::move(stored));
    return;
  }
  if (superblock_.keeps_free_space) {
    fail(ErrorCode::unsupported,
         "{}: a chunk would take {} bytes in place of {}, but the file keeps lists of its free space at its "
         "end, and "
         "HDF5 1.10 would overwrite the bytes after them; copy it first with h5repack -P 0",
         source_->name(), stored.size(), chunk.bytes);
  }
  const std::uint64_t base = superblock_.frame.base;
  const std::uint64_t from_base = (end_ - base + alignment - 1) / alignment * alignment;
  put(fields.address, from_base);
  end_ = base + from_base + stored.size();
  insert(base + from_base, std::move(stored));
}

/// Bytes [first, end) of the file with the changes made.
std::vector<std::uint8_t> Rewrite::altered(std::uint64_t first, std::uint64_t end) const {
  std::vector<std::uint8_t> bytes = source_->read(first, end - first, "a structure with a checksum");
  auto change = changes_.upper_bound(first);
  if (change != changes_.begin()) --change;
  for (; change != changes_.end() && change->first < end; ++change) {
    for (std::size_t i = 0; i < change->second.size(); ++i) {
      const std::uint64_t at = change->first + i;
      if (at >= first && at < end) bytes[at - first] = change->second[i];
    }
  }
  return bytes;
}

NewBytes Rewrite::finish() {
  // The address is relative to the user block that existed when the file was made.
  if (end_ > source_->size()) {
    put(superblock_.end_of_file_field, end_ - superblock_.offset + superblock_.stored_base);
  }
  // A checksum may lie inside the range of another one: the one that ends first is computed first.
  std::vector<Seal> seals(seals_.begin(), seals_.end());
  std::sort(seals.begin(), seals.end(),
            [](const Seal& a, const Seal& b) { return a.covered_end() < b.covered_end(); });
  for (const Seal& seal : seals) {
    const std::uint32_t sum = sum_for(seal, altered(seal.first, seal.covered_end()));
    put(seal.at, little_endian(sum, 4));
  }
  seals_.clear();
  return std::exchange(changes_, {});
}

}  // namespace bitrift::h5map
