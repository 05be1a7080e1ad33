#include <algorithm>
#include <map>
#include <utility>

#include <fcntl.h>

#include "ckpt/parallel_for.h"
#include "core/crc32c.h"
#include "core/error.h"
#include "h5map/chunk_rewrite.h"
#include "inject/apply.h"

namespace bitrift::inject {
namespace {

using Bytes = std::vector<std::uint8_t>;

const ckpt::TensorInfo& checked_tensor(const ckpt::Reader& reader, const record::AppliedFault& fault) {
  const std::string file = reader.path().string();
  const ckpt::TensorInfo* const tensor = reader.find(fault.tensor);
  if (tensor == nullptr) fail(ErrorCode::conflict, "{}: has no tensor {}", file, fault.tensor);
  if (!tensor->refusal.empty() && !tensor->refused_by_type) {
    fail(ErrorCode::unsupported, "{}: {} cannot be altered: {}", file, fault.tensor, tensor->refusal);
  }
  // A fault may have been drawn for the bytes as another format of the same width.
  const auto format = number_format(fault.dtype);
  if (!format || format->bytes != tensor->element_bytes) {
    fail(ErrorCode::conflict, "{}: {} is {}, the fault is for {}", file, fault.tensor, tensor->dtype,
         fault.dtype);
  }
  if (fault.element >= tensor->elements()) {
    fail(ErrorCode::conflict, "{}: {} has {} elements, the fault is in element {}", file, fault.tensor,
         tensor->elements(), fault.element);
  }
  return *tensor;
}

/// An element of a filtered chunk before and after.
struct Edit {
  std::uint64_t within = 0;  ///< first byte in the decoded chunk
  NumberFormat format;       ///< as it is stored
  std::uint64_t old_pattern = 0, new_pattern = 0;
  std::string name;  ///< for messages: "element 7 of w"
};

struct ChunkEdits {
  const ckpt::Values* values = nullptr;
  h5map::Chunk chunk;
  std::vector<Edit> edits;
  ckpt::EncodedChunk encoded;
};

/// Turns faults into byte changes, one after the other; filtered chunks wait until all of theirs are known.
class Patcher {
 public:
  explicit Patcher(const ckpt::Reader& reader)
      : reader_(reader),
        file_(reader.path().string()),
        fd_(open_file(reader.path(), O_RDONLY)),
        rewrite_(reader.file().source(), reader.file().superblock()) {}

  void add(const record::AppliedFault& fault) {
    if (fault.plane == "metadata") {
      metadata_ = true;
      return add_byte(fault);
    }
    if (fault.tensor != name_) {
      tensor_ = &checked_tensor(reader_, fault);
      values_ = &reader_.values(*tensor_);
      name_ = fault.tensor;
    } else if (fault.element >= tensor_->elements() || fault.dtype != dtype_) {
      static_cast<void>(checked_tensor(reader_, fault));
    }
    if (fault.dtype != dtype_) {
      dtype_ = fault.dtype;
      format_ = number_format(dtype_).value();
    }
    alter(fault);
  }

  Patch finish() {
    for (const auto& [path, change] : checksums_) {
      if (change.before != change.after) put_checksum(change);
    }
    encode_chunks();
    Patch patch;
    patch.ranges = std::move(ranges_);
    patch.file_bytes = reader_.file().source().size();
    for (h5map::Change& change : rewrite_.finish()) take(std::move(change), patch);
    join(patch.ranges);
    if (!metadata_) refuse_clashes(patch.ranges);
    return patch;
  }

 private:
  struct ChecksumChange {
    std::uint64_t element = 0;
    std::uint32_t before = 0, after = 0;
  };

  void add_byte(const record::AppliedFault& fault) {
    Patch::Range range{fault.element, Bytes(1), Bytes(1)};
    read_at(fd_, range.before.data(), 1, fault.element, reader_.path());
    if (range.before[0] != fault.old_pattern) {
      fail(ErrorCode::conflict, "{}: byte {} holds {:#x}, the fault was drawn for {:#x}", file_,
           fault.element, range.before[0], fault.old_pattern);
    }
    range.after[0] = static_cast<std::uint8_t>(fault.new_pattern);
    if (range.before != range.after) ranges_.push_back(std::move(range));
  }

  void alter(const record::AppliedFault& fault) {
    NumberFormat format = format_;
    if (tensor_->format) format.order = tensor_->format->order;
    const std::uint64_t byte = tensor_->byte_of(fault.element);
    const ckpt::Values::Spot spot = place(byte);
    Edit edit{spot.at, format, fault.old_pattern, fault.new_pattern,
              fmt::format("element {} of {}", fault.element, fault.tensor)};
    if (fault.plane == "storage" && (spot.chunk || spot.seal)) {
      fail(ErrorCode::unsupported,
           "{}: {} is not stored as it is ({}): plane storage cannot alter its values", file_, fault.tensor,
           tensor_->storage);
    }
    if (spot.chunk) {
      chunk_of(spot).edits.push_back(std::move(edit));
    } else {
      Bytes before(format.bytes);
      read_at(fd_, before.data(), before.size(), spot.at, reader_.path());
      Bytes after = before;
      apply(edit, after.data());
      if (before == after) return;
      put(spot, std::move(before), std::move(after));
    }
    if (fault.plane == "value") follow_checksum(byte, fault);
  }

  /// Checks the old value and stores the new one; what is no part of the value (padding) stays.
  void apply(const Edit& edit, std::uint8_t* stored) const {
    const std::uint64_t found = load_pattern(edit.format, stored);
    if (found != edit.old_pattern) {
      fail(ErrorCode::conflict, "{}: {} holds {:#x}, the fault was drawn for {:#x}", file_, edit.name, found,
           edit.old_pattern);
    }
    store_pattern(edit.format, edit.new_pattern, stored);
  }

  [[nodiscard]] ckpt::Values::Spot place(std::uint64_t byte) const {
    if (tensor_->offset) return {*tensor_->offset + byte, tensor_->element_bytes, std::nullopt, std::nullopt};
    return values_->locate(byte);
  }

  void put(const ckpt::Values::Spot& spot, Bytes before, Bytes after) {
    if (spot.seal) {
      rewrite_.put(spot.at, after);
      rewrite_.touch(*spot.seal);
    } else {
      ranges_.push_back({spot.at, std::move(before), std::move(after)});
    }
  }

  ChunkEdits& chunk_of(const ckpt::Values::Spot& spot) {
    ChunkEdits& edits = chunks_[{values_, spot.chunk->cell}];
    edits.values = values_;
    edits.chunk = *spot.chunk;
    return edits;
  }

  /// CRC-32C is linear, so the stored sum follows from the changed bytes alone. It is that of the values in
  /// little-endian order, as a reader has them.
  void follow_checksum(std::uint64_t byte, const record::AppliedFault& fault) {
    if (!tensor_->whole() || fault.old_pattern == fault.new_pattern) return;
    const auto stored = reader_.checksum(tensor_->path);
    if (!stored) return;
    const auto at =
        checksums_.try_emplace(tensor_->path, ChecksumChange{stored->element, stored->value, stored->value})
            .first;
    NumberFormat little = format_;
    little.order = ByteOrder::little;
    Bytes difference(little.bytes);
    store_pattern(little, fault.old_pattern ^ fault.new_pattern, difference.data());
    const std::uint64_t behind = values_->bytes() - (byte + difference.size());
    at->second.after = crc32c_xor(at->second.after, difference.data(), difference.size(), behind);
  }

  void put_checksum(const ChecksumChange& change) {
    record::AppliedFault fault;
    fault.tensor = "checksum/crc32c";
    fault.element = change.element;
    fault.old_pattern = change.before;
    fault.new_pattern = change.after;
    fault.plane = "checksum";
    tensor_ = reader_.find(fault.tensor);
    values_ = &reader_.values(*tensor_);
    format_ = tensor_->format.value();
    alter(fault);
  }

  void encode_chunks() {
    std::vector<ChunkEdits*> all;
    for (auto& [key, edits] : chunks_) all.push_back(&edits);
    ckpt::parallel_for(all.size(), [&](std::size_t i) {
      ChunkEdits& one = *all[i];
      Bytes values = one.values->decode(one.chunk);
      for (const Edit& edit : one.edits) apply(edit, values.data() + edit.within);
      one.encoded = one.values->encode(one.chunk, values);
    });
    for (ChunkEdits* one : all) {
      rewrite_.put_chunk(*one->values->chunks(), one->chunk, one->encoded.bytes, one->encoded.mask);
      one->encoded = {};
    }
  }

  void take(h5map::Change change, Patch& patch) const {
    if (change.offset >= patch.file_bytes) {
      patch.tail.resize(change.offset - patch.file_bytes);
      patch.tail.insert(patch.tail.end(), change.bytes.begin(), change.bytes.end());
      return;
    }
    Patch::Range range{change.offset, Bytes(change.bytes.size()), std::move(change.bytes)};
    read_at(fd_, range.before.data(), range.before.size(), range.offset, reader_.path());
    if (range.before != range.after) patch.ranges.push_back(std::move(range));
  }

  void refuse_clashes(const std::vector<Patch::Range>& ranges) const {
    for (const Patch::Range& range : ranges) {
      const auto clash = reader_.clash(range.offset, range.offset + range.before.size());
      if (!clash) continue;
      fail(ErrorCode::unsupported, "{}: byte {} holds values, but belongs to the {} too: the file is damaged",
           file_, range.offset, *clash);
    }
  }

  /// Sorts, and joins neighbours, so that a whole tensor is one write.
  void join(std::vector<Patch::Range>& ranges) const {
    const auto earlier = [](const auto& a, const auto& b) { return a.offset < b.offset; };
    if (!std::is_sorted(ranges.begin(), ranges.end(), earlier)) {
      std::sort(ranges.begin(), ranges.end(), earlier);
    }
    std::vector<Patch::Range> joined;
    for (Patch::Range& range : ranges) {
      const std::uint64_t end = joined.empty() ? 0 : joined.back().offset + joined.back().before.size();
      if (!joined.empty() && range.offset < end) {
        fail(ErrorCode::bad_input, "{}: two faults are given for the same element (at byte {})", file_,
             range.offset);
      }
      if (!joined.empty() && range.offset == end) {
        joined.back().before.insert(joined.back().before.end(), range.before.begin(), range.before.end());
        joined.back().after.insert(joined.back().after.end(), range.after.begin(), range.after.end());
      } else {
        joined.push_back(std::move(range));
      }
    }
    ranges = std::move(joined);
  }

  const ckpt::Reader& reader_;
  std::string file_;
  FileDescriptor fd_;
  h5map::Rewrite rewrite_;
  std::vector<Patch::Range> ranges_;
  std::map<std::pair<const ckpt::Values*, std::uint64_t>, ChunkEdits> chunks_;
  std::map<std::string, ChecksumChange> checksums_;
  // Of the fault before: neighbours share them.
  std::string name_, dtype_;
  const ckpt::TensorInfo* tensor_ = nullptr;
  const ckpt::Values* values_ = nullptr;
  NumberFormat format_;
  bool metadata_ = false;  // damage is what the faults are for
};

}  // namespace

Patch make_patch(const ckpt::Reader& reader, const std::vector<record::AppliedFault>& faults) {
  Patcher patcher(reader);
  for (const record::AppliedFault& fault : faults) patcher.add(fault);
  return patcher.finish();
}

}  // namespace bitrift::inject
