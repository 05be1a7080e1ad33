#include "h5map/structure/object_header.h"

#include <cstring>
#include <set>
#include <span>

#include "core/error.h"
#include "h5map/structure/block.h"

namespace bitrift::h5map {
namespace {

constexpr std::string_view object_header_what = "object header";
constexpr std::string_view kContinuation = "object header continuation";
// A writer must refuse an object with an unknown message that has the first flag; a reader, one with the
// second.
constexpr unsigned kFailOnWrite = 0x08, kFailAlways = 0x80;

// Both versions count messages in 16 bits somewhere.
constexpr std::size_t kMostMessages = 65536;

struct Chunk {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

class HeaderReader {
 public:
  HeaderReader(const Source& source, const Frame& frame, std::uint64_t offset)
      : source_(source), frame_(frame) {
    header_.offset = offset;
  }

  ObjectHeader read() {
    const auto first = source_.read(header_.offset, 6, object_header_what);
    if (std::memcmp(first.data(), "OHDR", 4) == 0) {
      if (first[4] != 2) refuse_version(first[4]);
      read_first_new(first[5]);
    } else {
      if (first[0] != 1) refuse_version(first[0]);
      read_first_old();
    }
    while (!open_.empty()) {
      const Chunk next = open_.back();
      open_.pop_back();
      read_continuation(next);
    }
    return std::move(header_);
  }

 private:
  [[noreturn]] void refuse_version(unsigned version) const {
    fail(ErrorCode::bad_file, "{}: object header at byte {} is none (version {})", source_.name(),
         header_.offset, version);
  }

  void read_first_old() {
    header_.version = 1;
    const auto prefix = source_.read(header_.offset, 16, object_header_what);
    Cursor cursor(prefix, source_.name(), object_header_what);
    cursor.skip(8);
    const std::uint64_t bytes = cursor.u32();
    const auto body = source_.read(header_.offset + 16, bytes, object_header_what);
    parse(Cursor(body, source_.name(), object_header_what), header_.offset + 16, std::nullopt);
  }

  void read_first_new(unsigned flags) {
    header_.version = 2;
    ordered_ = (flags & 4U) != 0;
    const unsigned size_bytes = 1U << (flags & 3U);
    const std::uint64_t prefix = 6U + ((flags & 0x20U) != 0 ? 16U : 0U) + ((flags & 0x10U) != 0 ? 4U : 0U);
    const auto size = source_.read(header_.offset + prefix, size_bytes, object_header_what);
    const std::uint64_t bytes = Cursor(size, source_.name(), object_header_what).number(size_bytes);
    source_.check(header_.offset, bytes, object_header_what);
    const std::uint64_t begin = prefix + size_bytes;
    const Block block = read_block(source_, header_.offset, begin + bytes + 4, "OHDR", object_header_what);
    parse(Cursor(std::span(block.bytes).subspan(begin, bytes), source_.name(), object_header_what),
          header_.offset + begin, block.seal());
  }

  void read_continuation(const Chunk& chunk) {
    if (!seen_.insert(chunk.offset).second) {
      fail(ErrorCode::bad_file, "{}: object header at byte {} continues at byte {} twice", source_.name(),
           header_.offset, chunk.offset);
    }
    if (header_.version == 1) {
      const auto body = source_.read(chunk.offset, chunk.bytes, kContinuation);
      parse(Cursor(body, source_.name(), kContinuation), chunk.offset, std::nullopt);
      return;
    }
    if (chunk.bytes < 8) {
      fail(ErrorCode::bad_file, "{}: object header continuation at byte {} has {} bytes, too few",
           source_.name(), chunk.offset, chunk.bytes);
    }
    const Block block = read_block(source_, chunk.offset, chunk.bytes, "OCHK", kContinuation);
    parse(block.body(source_, kContinuation), chunk.offset + 4, block.seal());
  }

  void parse(Cursor cursor, std::uint64_t offset, std::optional<Seal> seal) {
    const unsigned head = header_.version == 1 ? 8 : ordered_ ? 6 : 4;
    while (cursor.left() >= head) {
      Message message;
      message.type = header_.version == 1 ? cursor.u16() : cursor.u8();
      const std::uint64_t bytes = cursor.u16();
      message.flags = cursor.u8();
      cursor.skip(header_.version == 1 ? 3 : ordered_ ? 2 : 0);
      message.offset = offset + cursor.position();
      if (bytes > cursor.left()) {
        fail(ErrorCode::bad_file, "{}: message of {} bytes at byte {} is larger than its object header",
             source_.name(), bytes, message.offset);
      }
      const auto body = cursor.take(bytes);
      if (message.type == 0) continue;
      if (message.type == message::continuation) {
        follow(body);
        continue;
      }
      refuse_unknown(message);
      if (header_.messages.size() == kMostMessages) {
        fail(ErrorCode::bad_file, "{}: object header at byte {} has more than {} messages", source_.name(),
             header_.offset, kMostMessages);
      }
      message.body.assign(body.begin(), body.end());
      message.seal = seal;
      header_.messages.push_back(std::move(message));
    }
  }

  void follow(std::span<const std::uint8_t> body) {
    Cursor cursor(body, source_.name(), kContinuation);
    const std::uint64_t address = cursor.address(frame_.offset_bytes);
    const std::uint64_t bytes = cursor.number(frame_.length_bytes);
    const std::uint64_t at = place(source_, frame_, address, kContinuation);
    source_.check(at, bytes, kContinuation);
    open_.push_back({at, bytes});
  }

  void refuse_unknown(const Message& message) const {
    if (message.type <= message::newest || (message.flags & (kFailOnWrite | kFailAlways)) == 0) return;
    fail(ErrorCode::unsupported,
         "{}: object header at byte {} has a message of unknown type {} that may not be passed over",
         source_.name(), header_.offset, message.type);
  }

  const Source& source_;
  const Frame& frame_;
  ObjectHeader header_;
  bool ordered_ = false;  // messages carry their creation order
  std::vector<Chunk> open_;
  std::set<std::uint64_t> seen_;
};

}  // namespace

const Message* ObjectHeader::find(unsigned type) const noexcept {
  for (const Message& message : messages) {
    if (message.type == type) return &message;
  }
  return nullptr;
}

ObjectHeader read_object_header(const Source& source, const Frame& frame, std::uint64_t offset) {
  return HeaderReader(source, frame, offset).read();
}

}  // namespace bitrift::h5map
