#include "h5map/message/attribute.h"

#include <algorithm>

#include "core/error.h"
#include "h5map/structure/block.h"
#include "h5map/structure/btree2.h"
#include "h5map/structure/fractal_heap.h"
#include "h5map/structure/heap.h"

namespace bitrift::h5map {
namespace {

constexpr std::string_view attribute_what = "attribute";
constexpr unsigned kAttributesByName = 8;
constexpr unsigned kTypeShared = 1, kSpaceShared = 2;

/// A piece of an attribute message as a separate message.
Message piece(Cursor& cursor, const Message& whole, unsigned type, bool shared, std::uint64_t bytes,
              std::uint64_t padding) {
  Message part;
  part.type = type;
  part.flags = shared ? 2 : 0;
  part.offset = whole.offset + cursor.position();
  part.seal = whole.seal;
  const auto body = cursor.take(bytes);
  part.body.assign(body.begin(), body.end());
  cursor.skip((padding - bytes % padding) % padding);
  return part;
}

void parse(const Source& source, SharedMessages& shared, const Message& message, Attribute& attribute) {
  Cursor cursor(message.body, source.name(), attribute_what);
  const unsigned version = cursor.u8();
  if (version < 1 || version > 3) {
    fail(ErrorCode::unsupported, "{}: attribute version {} is unknown", source.name(), version);
  }
  const unsigned second = cursor.u8();  // version 1: reserved
  const unsigned flags = version == 1 ? 0 : second;
  const std::uint64_t name_bytes = cursor.u16(), type_bytes = cursor.u16(), space_bytes = cursor.u16();
  if (version == 3) cursor.skip(1);
  const std::uint64_t padding = version == 1 ? 8 : 1;
  const auto name = cursor.take(name_bytes);
  attribute.name.assign(name.begin(), std::find(name.begin(), name.end(), std::uint8_t{0}));
  cursor.skip((padding - name_bytes % padding) % padding);
  const Message type =
      piece(cursor, message, message::datatype, (flags & kTypeShared) != 0, type_bytes, padding);
  const Message space =
      piece(cursor, message, message::dataspace, (flags & kSpaceShared) != 0, space_bytes, padding);
  attribute.space = shared.dataspace(space);
  const DatatypePtr datatype = shared.datatype(type);
  const std::uint64_t count = attribute.space.element_count();
  if (count != 0 && datatype->bytes > cursor.left() / count) {
    fail(ErrorCode::bad_file, "{}: value of {} elements is larger than its attribute", source.name(), count);
  }
  attribute.type = datatype;
  attribute.bytes = count * datatype->bytes;
  attribute.offset = message.offset + cursor.position();
  attribute.seal = message.seal;
}

Attribute read_one(const Source& source, SharedMessages& shared, const Message& message) {
  Attribute attribute;
  try {
    const Message found = shared.resolve(message);
    attribute.shared = message.shared();
    parse(source, shared, found, attribute);
    source.note(attribute.offset, attribute.bytes, "attribute value");
  } catch (const Error& error) {
    attribute.problem = error.what();
  }
  return attribute;
}

void read_dense_attributes(const Source& source, const Frame& frame, SharedMessages& shared,
                           const Message& info, std::vector<Attribute>& attributes) {
  Cursor cursor(info.body, source.name(), "attribute info message");
  if (cursor.u8() != 0) fail(ErrorCode::unsupported, "{}: attribute info version is unknown", source.name());
  if ((cursor.u8() & 1U) != 0) cursor.skip(2);
  const std::uint64_t heap_at = place(source, frame, cursor.address(frame.offset_bytes), attribute_what);
  const std::uint64_t tree_at = place(source, frame, cursor.address(frame.offset_bytes), attribute_what);
  if (heap_at == undefined || tree_at == undefined) return;
  FractalHeap heap(source, frame, heap_at);
  const BTree2 tree(source, frame, tree_at);
  if (tree.type() != kAttributesByName || tree.record_bytes() < heap.id_bytes() + 1) {
    fail(ErrorCode::bad_file, "{}: B-tree at byte {} is not an index of attributes", source.name(), tree_at);
  }
  tree.visit([&](const BTree2::Record& record) {
    const auto id = record.bytes.first(heap.id_bytes());
    Message message;
    message.type = message::attribute;
    const bool elsewhere = (record.bytes[heap.id_bytes()] & 2U) != 0;
    HeapObject object = elsewhere ? shared.heap_object(message.type, id) : heap.object(id);
    message.offset = object.offset == undefined ? record.offset + 1 : object.offset;
    message.seal = object.offset == undefined ? record.seal : object.seal;
    message.body = std::move(object.bytes);
    attributes.push_back(read_one(source, shared, message));
    attributes.back().shared = attributes.back().shared || elsewhere;
  });
}

/// One string: `value` is its place in the attribute; a value of variable length has a reference there.
std::string text_at(const Source& source, const Frame& frame, const Datatype& type, GlobalObject value) {
  if (type.variable_string) {
    const auto reference = source.read(value.offset, value.bytes, "attribute value");
    Cursor cursor(reference, source.name(), "variable-length text");
    const std::uint64_t bytes = cursor.u32();
    const std::uint64_t heap = place(source, frame, cursor.address(frame.offset_bytes), attribute_what);
    const std::uint32_t index = cursor.u32();
    if (bytes == 0) return "";
    value = find_global_object(source, frame, heap, index);
    value.bytes = std::min(value.bytes, bytes);
  }
  const auto bytes = source.read(value.offset, value.bytes, "text of an attribute");
  std::string text(bytes.begin(), std::find(bytes.begin(), bytes.end(), std::uint8_t{0}));
  if (type.space_padded) text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::vector<Attribute> read_attributes(const Source& source, const Frame& frame, SharedMessages& shared,
                                       const ObjectHeader& header) {
  std::vector<Attribute> attributes;
  for (const Message& message : header.messages) {
    if (message.type == message::attribute) {
      attributes.push_back(read_one(source, shared, message));
    } else if (message.type == message::attribute_info) {
      read_dense_attributes(source, frame, shared, message, attributes);
    }
  }
  std::stable_sort(attributes.begin(), attributes.end(),
                   [](const Attribute& a, const Attribute& b) { return a.name < b.name; });
  return attributes;
}

std::vector<std::string> attribute_texts(const Source& source, const Frame& frame,
                                         const Attribute& attribute) {
  if (!attribute.problem.empty() || attribute.space.kind == Dataspace::Kind::null) return {};
  const Datatype& type = *attribute.type;
  if ((!type.variable_string && type.type_class != TypeClass::string) || attribute.space.shape.size() > 1)
    return {};
  const std::uint64_t count = attribute.space.shape.empty() ? 1 : attribute.space.shape.front();
  if (count == 0 || attribute.bytes / count == 0) return {};
  const std::uint64_t width = attribute.bytes / count;
  std::vector<std::string> texts;
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    texts.push_back(text_at(source, frame, type, {attribute.offset + i * width, width}));
    total += texts.back().size();
    if (total > source.size()) {
      fail(ErrorCode::bad_file, "{}: the texts of attribute '{}' are longer than the file", source.name(),
           attribute.name);
    }
  }
  return texts;
}

std::optional<std::string> attribute_text(const Source& source, const Frame& frame,
                                          const Attribute& attribute) {
  if (!attribute.problem.empty() || attribute.space.kind != Dataspace::Kind::scalar) return std::nullopt;
  const std::vector<std::string> texts = attribute_texts(source, frame, attribute);
  return texts.empty() ? std::nullopt : std::optional(texts.front());
}

}  // namespace bitrift::h5map
