#include "h5map/chunk/entry_code.h"

#include "core/error.h"

namespace bitrift::h5map {

ChunkEntry EntryCode::decode(const Source& source, const Block& block, std::uint64_t at) const {
  Cursor cursor(std::span(block.bytes).subspan(at, entry_bytes), source.name(), "chunk entry");
  ChunkEntry entry;
  entry.offset = place(source, frame, cursor.address(frame.offset_bytes), "a chunk");
  if (filtered) {
    entry.bytes = cursor.number(size_bytes());
    entry.mask = cursor.u32();
  }
  entry.entry_at = block.offset + at;
  entry.seal = block.seal();
  return entry;
}

void EntryCode::check(const Source& source, unsigned client, bool needs_filtered, const char* what) const {
  const unsigned least = frame.offset_bytes + (filtered ? 5 : 0);
  const unsigned most = frame.offset_bytes + (filtered ? 12 : 0);
  if (client > 1 || filtered != needs_filtered || entry_bytes < least || entry_bytes > most) {
    fail(ErrorCode::bad_file, "{}: {} with entries of kind {} and {} bytes does not fit its dataset",
         source.name(), what, client, entry_bytes);
  }
}

}  // namespace bitrift::h5map
