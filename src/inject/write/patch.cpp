#include "inject/write/patch.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include <fcntl.h>

#include "ckpt/format/half_byte_values.h"
#include "core/crc32c.h"
#include "core/error.h"
#include "core/process/parallel_for.h"
#include "inject/stored_bytes.h"

namespace bitrift::inject {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// Reading a gap of this many bytes costs less than a second call; a block has at most the second number of
/// bytes.
constexpr std::uint64_t gap_bytes = 4096;
constexpr std::uint64_t block_bytes = std::uint64_t{1} << 20;

struct ChecksumChange {
  std::uint64_t element = 0;
  std::uint32_t before = 0, after = 0;
};

/// What all changes at one place of the list have in common, looked up once.
struct Site {
  record::FaultSite shared;
  const ckpt::TensorInfo* tensor = nullptr;
  const ckpt::Values* values = nullptr;
  NumberFormat format;                 ///< in its stored form
  std::uint64_t inverted = 0;          ///< the bits of a pattern that are stored inverted
  ChecksumChange* checksum = nullptr;  ///< the checksum to update; none on planes without one
  std::size_t block = 0;               ///< place of the values, which determines the order in which chunks
                                       ///< grow
};

void check_tensor(const ckpt::Reader& reader, const record::FaultSite& site) {
  const std::string file = reader.path().string();
  const ckpt::TensorInfo* const tensor = reader.find(site.tensor);
  if (tensor == nullptr) fail(ErrorCode::conflict, "{}: has no tensor {}", file, site.tensor);
  if (!tensor->refusal.empty() && !tensor->refused_by_type) {
    fail(ErrorCode::unsupported, "{}: {} cannot be altered: {}", file, site.tensor, tensor->refusal);
  }
  // A fault may have been drawn for the bytes as another format of the same width.
  const auto format = number_format(site.dtype);
  const bool halves = tensor->format && ckpt::takes_half_a_byte(*tensor->format);
  if (!format || format->bytes != tensor->element_bytes || halves != ckpt::takes_half_a_byte(*format)) {
    fail(ErrorCode::conflict, "{}: {} is {}, the fault is for {}", file, site.tensor, tensor->dtype,
         site.dtype);
  }
}

/// An altered element of a filtered chunk.
struct Edit {
  std::uint64_t within = 0;  ///< first byte in the decoded chunk
  const Site* site = nullptr;
  record::ElementChange change;
};

struct ChunkEdits {
  const ckpt::Values* values = nullptr;
  h5map::Chunk chunk;
  std::vector<Edit> edits;
  ckpt::EncodedChunk encoded;
};

/// Converts changes to bytes, one after another; filtered chunks wait until all their changes are known.
class Patcher {
 public:
  explicit Patcher(const ckpt::Reader& reader)
      : reader_(reader),
        file_(reader.path().string()),
        files_(reader.files(), O_RDONLY),
        rewriter_(reader.container().rewriter()) {}

  /// Changes of one site.
  void add(const record::FaultSite& shared, std::span<const record::ElementChange> changes) {
    if (shared.plane == record::Plane::metadata) {
      metadata_ = true;
      for (const record::ElementChange& change : changes) add_byte(change);
      return;
    }
    if (record::names_byte(shared.plane, shared.structure)) return add_packed(shared, changes);
    check_tensor(reader_, shared);
    Site& site = site_of(shared, shared.plane == record::Plane::value);
    for (const record::ElementChange& change : changes) {
      if (change.element < site.tensor->elements()) continue;
      fail(ErrorCode::conflict, "{}: {} has {} elements, the fault is in element {}", file_, shared.tensor,
           site.tensor->elements(), change.element);
    }
    if (site.tensor->offset) return add_direct(site, changes);
    for (const record::ElementChange& change : changes) add_anywhere(site, change);
  }

  Patch finish() {
    for (const auto& [path, change] : checksums_) {
      if (change.before != change.after) put_checksum(change);
    }
    encode_chunks();
    for (const auto& [at, byte] : shared_bytes_) {
      if (byte.before != byte.after) put(*byte.site, at, {&byte.before, 1}, {&byte.after, 1});
    }
    for (const auto& [offset, bytes] : rewriter_->finish()) take(offset, bytes);
    patch_.file_bytes = reader_.container().bytes();
    join();
    if (!metadata_) refuse_clashes();
    return std::move(patch_);
  }

 private:
  Site& site_of(const record::FaultSite& shared, bool sealed) {
    Site site;
    site.shared = shared;
    site.tensor = reader_.find(shared.tensor);
    site.format = number_format(shared.dtype).value();
    site.values = &reader_.values(*site.tensor);
    site.block = reader_.block(*site.tensor);
    site.format.order = site.tensor->order;
    if (site.tensor->negated) site.inverted = std::uint64_t{1} << (8 * site.format.bytes - 1);
    if (sealed && site.tensor->whole()) {
      if (const auto stored = reader_.checksum(site.tensor->path)) {
        const ChecksumChange none{stored->element, stored->value, stored->value};
        site.checksum = &checksums_.try_emplace(site.tensor->path, none).first->second;
      }
    }
    sites_.push_back(std::move(site));
    return sites_.back();
  }

  void add_byte(const record::ElementChange& change) {
    std::uint8_t before = 0;
    files_.read(&before, 1, change.element);
    if (before != change.old_pattern) {
      fail(ErrorCode::conflict, "{}: byte {} holds {:#x}, the fault was drawn for {:#x}", file_,
           change.element, before, change.old_pattern);
    }
    const auto after = static_cast<std::uint8_t>(change.new_pattern);
    if (before != after) patch_.add(change.element, {&before, 1}, {&after, 1});
  }

  /// Stored bytes of a dataset with filters, which must belong to that dataset in this file too.
  void add_packed(const record::FaultSite& shared, std::span<const record::ElementChange> changes) {
    if (!packed_ || packed_name_ != shared.tensor) {
      packed_.emplace(reader_, shared.tensor);
      packed_name_ = shared.tensor;
    }
    for (const record::ElementChange& change : changes) {
      if (!packed_->holds(change.element)) {
        fail(ErrorCode::conflict, "{}: byte {} is not in a chunk of {}", file_, change.element,
             shared.tensor);
      }
      add_byte(change);
    }
  }

  /// Values that are stored unfiltered: neighbours are read at once.
  void add_direct(Site& site, std::span<const record::ElementChange> changes) {
    const std::uint64_t width = site.format.bytes;
    const auto place = [&](const record::ElementChange& one) {
      return *site.tensor->offset + site.tensor->byte_of(one.element);
    };
    Bytes block, after(width);
    for (std::size_t i = 0; i < changes.size();) {
      const std::uint64_t first = place(changes[i]);
      std::uint64_t last = first;
      std::size_t end = i + 1;
      for (; end < changes.size(); ++end) {
        const std::uint64_t next = place(changes[end]);
        if (next < last || next - last > gap_bytes || next + width - first > block_bytes) break;
        last = next;
      }
      block.resize(last + width - first);
      files_.read(block.data(), block.size(), first);
      for (; i < end; ++i) {
        const std::uint64_t at = place(changes[i]);
        const std::span<const std::uint8_t> before{block.data() + (at - first), width};
        std::copy(before.begin(), before.end(), after.begin());
        alter(site, changes[i], after.data());
        if (!std::equal(before.begin(), before.end(), after.begin())) put(site, at, before, after);
        follow_checksum(site, changes[i]);
      }
    }
  }

  /// Values that are stored unfiltered; on the plane value, the file's own checksums are updated.
  void put(const Site& site, std::uint64_t at, std::span<const std::uint8_t> before,
           std::span<const std::uint8_t> after) {
    patch_.add(at, before, after);
    if (site.shared.plane == record::Plane::value) rewriter_->change(at, before, after);
  }

  void add_anywhere(Site& site, const record::ElementChange& change) {
    const ckpt::Values::Spot spot = site.values->locate(site.tensor->byte_of(change.element));
    const bool storage = site.shared.plane == record::Plane::storage;
    if (storage && spot.chunk) {
      fail(ErrorCode::conflict,
           "{}: {} is not stored as it is ({}): plane storage has bytes of its chunks, not its values", file_,
           site.shared.tensor, site.tensor->storage);
    }
    if (spot.bit) {
      add_part_of_byte(site, spot.at, *spot.bit, change);
    } else if (spot.chunk) {
      ChunkEdits& edits = edits_of(site, *spot.chunk);
      edits.edits.push_back({spot.at, &site, change});
    } else {
      Bytes before(site.format.bytes);
      files_.read(before.data(), before.size(), spot.at);
      Bytes after = before;
      alter(site, change, after.data());
      if (before == after) return;
      if (spot.seal && !storage) {
        rewriter_->put(spot.at, after, *spot.seal);
      } else {
        put(site, spot.at, before, after);
      }
    }
    follow_checksum(site, change);
  }

  /// Another change may be in the rest of the byte.
  void add_part_of_byte(const Site& site, std::uint64_t at, unsigned bit,
                        const record::ElementChange& change) {
    const auto [found, added] = shared_bytes_.try_emplace(at);
    SharedByte& byte = found->second;
    if (added) {
      files_.read(&byte.before, 1, at);
      byte.after = byte.before;
      byte.site = &site;
    }
    NumberFormat format = site.format;
    format.bit_offset = bit;
    alter(site, format, change, &byte.after);
  }

  /// A deflated file is one chunk of all of its tensors.
  ChunkEdits& edits_of(const Site& site, const h5map::Chunk& chunk) {
    const auto [first, added] = chunk_keys_.try_emplace(chunk.offset, site.block, chunk.cell);
    ChunkEdits& edits = chunks_[first->second];
    if (added) {
      edits.values = site.values;
      edits.chunk = chunk;
    }
    return edits;
  }

  /// Checks the old value and stores the new one; bits outside of the value (padding) stay.
  void alter(const Site& site, const NumberFormat& format, const record::ElementChange& change,
             std::uint8_t* stored) const {
    const std::uint64_t found = load_pattern(format, stored) ^ site.inverted;
    if (found != change.old_pattern) {
      fail(ErrorCode::conflict, "{}: element {} of {} holds {:#x}, the fault was drawn for {:#x}", file_,
           change.element, site.shared.tensor, found, change.old_pattern);
    }
    store_pattern(format, change.new_pattern ^ site.inverted, stored);
  }
  void alter(const Site& site, const record::ElementChange& change, std::uint8_t* stored) const {
    alter(site, site.format, change, stored);
  }

  /// CRC-32C is linear, so the stored sum follows from the changed bytes alone. It is that of the values in
  /// little-endian order, as a reader has them.
  void follow_checksum(const Site& site, const record::ElementChange& change) const {
    if (site.checksum == nullptr || change.old_pattern == change.new_pattern) return;
    NumberFormat little = site.format;
    little.order = ByteOrder::little;
    std::array<std::uint8_t, 8> difference{};
    store_pattern(little, change.old_pattern ^ change.new_pattern, difference.data());
    const std::uint64_t behind = site.values->bytes() - (site.tensor->byte_of(change.element) + little.bytes);
    site.checksum->after = crc32c_xor(site.checksum->after, difference.data(), little.bytes, behind);
  }

  void put_checksum(const ChecksumChange& change) {
    const std::string path = "checksum/crc32c";
    const ckpt::TensorInfo& tensor = *reader_.find(path);
    Site& site = site_of({path, tensor.role, tensor.dtype}, false);
    add_anywhere(site, {0, change.element, 0, change.before, change.after});
  }

  void encode_chunks() {
    std::vector<ChunkEdits*> all;
    std::uint64_t largest = 0;
    for (auto& [key, edits] : chunks_) {
      all.push_back(&edits);
      largest = std::max(largest, edits.values->chunk_bytes());
    }
    const auto encode = [&](std::size_t i) {
      ChunkEdits& one = *all[i];
      one.encoded = one.values->recode(one.chunk, [&](std::span<std::uint8_t> values) {
        for (const Edit& edit : one.edits) alter(*edit.site, edit.change, values.data() + edit.within);
      });
    };
    parallel_for(all.size(), encode, largest);
    // Their order determines where larger chunks go.
    for (ChunkEdits* one : all) rewriter_->put_chunk(*one->values, one->chunk, std::move(one->encoded));
  }

  void take(std::uint64_t offset, const Bytes& bytes) {
    const std::uint64_t end = reader_.container().bytes();
    if (offset >= end) {
      if (files_.files().several()) {
        fail(ErrorCode::unsupported,
             "{}: a compressed part of it would become longer, which is possible in a single file alone: "
             "alter that "
             "file, and not the folder",
             file_);
      }
      patch_.tail.resize(offset - end);
      patch_.tail.insert(patch_.tail.end(), bytes.begin(), bytes.end());
      return;
    }
    Bytes before(bytes.size());
    files_.read(before.data(), before.size(), offset);
    add_differing(offset, before, bytes);
  }

  /// Only bytes that differ, and short gaps between them, for which further ranges would cost more: an
  /// altered chunk may keep most of its stored bytes.
  void add_differing(std::uint64_t offset, std::span<const std::uint8_t> before,
                     std::span<const std::uint8_t> after) {
    constexpr std::size_t most_between = 512;
    const auto differ_from = [&](std::size_t at) {
      const auto found = std::mismatch(before.begin() + static_cast<std::ptrdiff_t>(at), before.end(),
                                       after.begin() + static_cast<std::ptrdiff_t>(at));
      return static_cast<std::size_t>(found.first - before.begin());
    };
    for (std::size_t first = differ_from(0); first < before.size();) {
      std::size_t end = first + 1;
      std::size_t next = differ_from(end);
      for (; next < before.size() && next - end <= most_between; next = differ_from(end)) end = next + 1;
      patch_.add(offset + first, before.subspan(first, end - first), after.subspan(first, end - first));
      first = next;
    }
  }

  void refuse_clashes() const {
    for (const Patch::Range& range : patch_.ranges) {
      const auto clash = reader_.container().clash(range.offset, range.offset + range.bytes);
      if (!clash) continue;
      fail(ErrorCode::unsupported, "{}: byte {} holds values, but belongs to the {} too: the file is damaged",
           file_, range.offset, *clash);
    }
  }

  /// Sorts, and joins neighbours, so that a whole tensor is one write.
  void join() {
    const auto out_of_order = [](const auto& a, const auto& b) { return b.offset < a.end(); };
    if (std::adjacent_find(patch_.ranges.begin(), patch_.ranges.end(), out_of_order) == patch_.ranges.end()) {
      return;  // add() has joined them
    }
    std::vector<Patch::Range> ranges = std::move(patch_.ranges);
    std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
    Patch joined;
    joined.ranges.reserve(ranges.size());
    joined.before.reserve(patch_.before.size());
    joined.after.reserve(patch_.after.size());
    for (const Patch::Range& range : ranges) {
      if (!joined.ranges.empty() && range.offset < joined.ranges.back().end()) {
        fail(ErrorCode::bad_input, "{}: two faults are given for the same element (at byte {})", file_,
             range.offset);
      }
      joined.add(range.offset, patch_.before_of(range), patch_.after_of(range));
    }
    joined.tail = std::move(patch_.tail);
    joined.file_bytes = patch_.file_bytes;
    patch_ = std::move(joined);
  }

  const ckpt::Reader& reader_;
  std::string file_;
  FileRun files_;
  std::unique_ptr<ckpt::Rewriter> rewriter_;
  Patch patch_;
  // kept alive because edits point into them
  std::deque<Site> sites_;
  /// A byte that holds several elements.
  struct SharedByte {
    std::uint8_t before = 0, after = 0;
    const Site* site = nullptr;
  };
  std::map<std::uint64_t, SharedByte> shared_bytes_;       // by place
  using ChunkKey = std::pair<std::size_t, std::uint64_t>;  // dataset and cell
  std::map<ChunkKey, ChunkEdits> chunks_;
  std::unordered_map<std::uint64_t, ChunkKey> chunk_keys_;  // by the chunk's place in the file
  std::map<std::string, ChecksumChange> checksums_;
  std::optional<StoredBytes> packed_;  // of the dataset packed_name_
  std::string packed_name_;
  bool metadata_ = false;  // on these planes, faults are meant to cause damage
};

}  // namespace

void Patch::add(std::uint64_t offset, std::span<const std::uint8_t> old_bytes,
                std::span<const std::uint8_t> new_bytes) {
  if (!ranges.empty() && ranges.back().end() == offset) {
    ranges.back().bytes += old_bytes.size();
  } else {
    ranges.push_back({offset, old_bytes.size(), before.size()});
  }
  before.insert(before.end(), old_bytes.begin(), old_bytes.end());
  after.insert(after.end(), new_bytes.begin(), new_bytes.end());
}

Patch make_patch(const ckpt::Reader& reader, const record::FaultList& faults) {
  Patcher patcher(reader);
  const std::span<const record::ElementChange> changes(faults.changes);
  for (std::size_t first = 0; first < changes.size();) {
    std::size_t end = first + 1;
    while (end < changes.size() && changes[end].site == changes[first].site) ++end;
    patcher.add(faults.sites.at(changes[first].site), changes.subspan(first, end - first));
    first = end;
  }
  return patcher.finish();
}

Patch make_patch(const ckpt::Reader& reader, const std::vector<record::AppliedFault>& faults) {
  return make_patch(reader, record::compact(faults));
}

std::set<std::size_t> altered_parts(const Patch& patch, const FileList& files) {
  std::set<std::size_t> parts;
  for (const Patch::Range& range : patch.ranges) {
    const std::size_t last = files.part_of(range.end() - 1);
    for (std::size_t part = files.part_of(range.offset); part <= last; ++part) parts.insert(part);
  }
  return parts;
}

}  // namespace bitrift::inject
