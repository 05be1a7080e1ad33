#include "filters/filter_request.h"

#include <cstring>

#include "core/byte_cursor.h"
#include "core/error.h"

namespace bitrift::h5 {
namespace {

using Bytes = std::vector<std::uint8_t>;

void append(Bytes& out, const void* data, std::size_t size) {
  const auto* const first = static_cast<const std::uint8_t*>(data);
  out.insert(out.end(), first, first + size);
}

void put(Bytes& out, std::uint64_t number) { append(out, &number, sizeof number); }

template <typename T>
void put(Bytes& out, std::span<const T> list) {
  put(out, std::uint64_t{list.size_bytes()});
  append(out, list.data(), list.size_bytes());
}

/// Lists are preceded by their sizes in bytes.
class Unpacker : public ByteCursor {
 public:
  explicit Unpacker(std::span<const std::uint8_t> bytes)
      : ByteCursor(bytes, "", "a request to bitrift-hdf5", ErrorCode::internal) {}

  template <typename T>
  std::vector<T> list() {
    const auto bytes = take(u64());
    std::vector<T> items(bytes.size() / sizeof(T));
    if (!items.empty()) std::memcpy(items.data(), bytes.data(), items.size() * sizeof(T));
    return items;
  }
  void end() const {
    if (left() != 0) fail(ErrorCode::internal, "a request to bitrift-hdf5 is damaged");
  }
};

}  // namespace

Bytes FilterRequest::packed() const {
  Bytes out;
  out.reserve(chunk.bytes.size() + spec.datatype.size() + 4096);
  put(out, static_cast<std::uint64_t>(task));
  put(out, std::span<const char>(where));
  put(out, std::span<const std::uint8_t>(spec.datatype));
  put(out, std::span<const std::uint64_t>(spec.chunk));
  put(out, spec.element_bytes);
  put(out, spec.filters.size());
  for (const PipelineFilter& filter : spec.filters) {
    put(out, filter.id);
    put(out, std::uint64_t{filter.optional});
    put(out, std::span<const std::uint32_t>(filter.values));
  }
  put(out, chunk.mask);
  put(out, std::span<const std::uint8_t>(chunk.bytes));
  return out;
}

FilterRequest FilterRequest::unpacked(std::span<const std::uint8_t> bytes) {
  Unpacker from(bytes);
  FilterRequest request;
  request.task = static_cast<FilterTask>(from.u64());
  const auto text = from.list<char>();
  request.where.assign(text.begin(), text.end());
  request.spec.datatype = from.list<std::uint8_t>();
  request.spec.chunk = from.list<std::uint64_t>();
  request.spec.element_bytes = from.u64();
  for (std::uint64_t left = from.u64(); left > 0; --left) {
    PipelineFilter filter;
    filter.id = static_cast<unsigned>(from.u64());
    filter.optional = from.u64() != 0;
    filter.values = from.list<std::uint32_t>();
    request.spec.filters.push_back(std::move(filter));
  }
  request.chunk.mask = static_cast<std::uint32_t>(from.u64());
  request.chunk.bytes = from.list<std::uint8_t>();
  from.end();
  return request;
}

Bytes packed(const StoredChunk& chunk) {
  Bytes out;
  put(out, chunk.mask);
  put(out, std::span<const std::uint8_t>(chunk.bytes));
  return out;
}

StoredChunk unpacked_chunk(std::span<const std::uint8_t> bytes) {
  Unpacker from(bytes);
  StoredChunk chunk;
  chunk.mask = static_cast<std::uint32_t>(from.u64());
  chunk.bytes = from.list<std::uint8_t>();
  from.end();
  return chunk;
}

}  // namespace bitrift::h5
