#include "h5map/message/shared_message.h"

#include <utility>

#include "core/error.h"
#include "h5map/structure/block.h"

namespace bitrift::h5map {
namespace {

constexpr std::string_view kReference = "reference to a shared message";
constexpr std::string_view shared_table_what = "shared message table";
constexpr unsigned kInHeap = 1, kCommitted = 2;

}  // namespace

SharedMessages::Reference SharedMessages::parse(const Message& message) const {
  const Frame& frame = superblock_->frame;
  Cursor cursor(message.body, source_->name(), kReference);
  const unsigned version = cursor.u8();
  const unsigned kind = cursor.u8();
  Reference reference;
  if (version == 3 && kind == kInHeap) {
    reference.heap_id = cursor.take(8);
    return reference;
  }
  if (version < 1 || version > 3 || (version == 3 && kind != kCommitted)) {
    fail(ErrorCode::bad_file, "{}: reference to a shared message at byte {} is of unknown version or kind",
         source_->name(), message.offset);
  }
  // Version 1 holds a symbol table entry, which begins with reserved bytes and the position of a name.
  if (version == 1) cursor.skip(6U + frame.length_bytes);
  reference.header = place(*source_, frame, cursor.address(frame.offset_bytes), kReference);
  return reference;
}

Message SharedMessages::resolve(const Message& message) {
  if (!message.shared()) return message;
  const Reference reference = parse(message);
  if (reference.header == undefined) {
    HeapObject object = heap_object(message.type, reference.heap_id);
    Message found{message.type, 0, object.offset, object.seal, std::move(object.bytes)};
    // A tiny object is stored in its id, after the version, the kind and a byte of flags.
    if (found.offset == undefined) {
      found.offset = message.offset + 3;
      found.seal = message.seal;
    }
    return found;
  }
  const ObjectHeader header = read_object_header(*source_, superblock_->frame, reference.header);
  const Message* found = header.find(message.type);
  if (found == nullptr || found->shared()) {
    fail(ErrorCode::bad_file, "{}: object header at byte {} lacks the message that others share",
         source_->name(), reference.header);
  }
  return *found;
}

DatatypePtr SharedMessages::datatype(const Message& message) {
  std::uint64_t header = undefined;
  if (message.shared()) {
    header = parse(message).header;
    const auto known = committed_.find(header);
    if (known != committed_.end()) return known->second;
  }
  const Message found = resolve(message);
  Cursor cursor(found.body, source_->name(), "datatype");
  DatatypePtr type = parse_datatype(cursor, source_->name());
  source_->spend(type->footprint());
  if (header != undefined) committed_.emplace(header, type);
  return type;
}

Dataspace SharedMessages::dataspace(const Message& message) {
  const Message found = resolve(message);
  Cursor cursor(found.body, source_->name(), "dataspace");
  return parse_dataspace(cursor, superblock_->frame, source_->name());
}

HeapObject SharedMessages::heap_object(unsigned type, std::span<const std::uint8_t> id) {
  if (!indexes_) read_table();
  for (const Index& index : *indexes_) {
    if ((index.types >> type & 1U) == 0 || index.heap == undefined) continue;
    auto heap = heaps_.find(index.heap);
    if (heap == heaps_.end()) {
      heap = heaps_.emplace(index.heap, FractalHeap(*source_, superblock_->frame, index.heap)).first;
    }
    return heap->second.object(id);
  }
  fail(ErrorCode::bad_file, "{}: a message of type {} is shared, but the file has no heap for such",
       source_->name(), type);
}

void SharedMessages::read_table() {
  indexes_.emplace();
  if (superblock_->shared_messages == undefined) return;
  const Frame& frame = superblock_->frame;
  const std::uint64_t bytes = 8U + superblock_->shared_indexes * (14U + 2U * frame.offset_bytes);
  const Block block = read_block(*source_, superblock_->shared_messages, bytes, "SMTB", shared_table_what);
  Cursor cursor = block.body(*source_, shared_table_what);
  for (unsigned i = 0; i < superblock_->shared_indexes; ++i) {
    cursor.skip(2);
    Index index;
    index.types = cursor.u16();
    cursor.skip(10U + frame.offset_bytes);
    index.heap = place(*source_, frame, cursor.address(frame.offset_bytes), shared_table_what);
    indexes_->push_back(index);
  }
}

}  // namespace bitrift::h5map
