#include "filters/filter_request.h"

#include <cstring>

#include "core/error.h"

namespace bitrift::h5 {
namespace {

using Bytes = std::vector<std::uint8_t>;

template <typename T>
void put(Bytes& out, std::span<const T> list) {
  const std::uint64_t count = list.size();
  const auto append = [&](const void* data, std::size_t size) {
    if (size == 0) return;
    const std::size_t at = out.size();
    out.resize(at + size);
    std::memcpy(out.data() + at, data, size);
  };
  append(&count, sizeof count);
  append(list.data(), list.size_bytes());
}

void put(Bytes& out, std::uint64_t number) { put(out, std::span<const std::uint64_t>(&number, 1)); }

class Unpacker {
 public:
  explicit Unpacker(std::span<const std::uint8_t> bytes) : left_(bytes) {}

  template <typename T>
  std::vector<T> list() {
    std::uint64_t count = 0;
    std::memcpy(&count, take(sizeof count).data(), sizeof count);
    if (count > left_.size() / sizeof(T)) fail_packed();
    std::vector<T> items(count);
    const auto bytes = take(count * sizeof(T));
    if (count > 0) std::memcpy(items.data(), bytes.data(), bytes.size());
    return items;
  }
  std::uint64_t number() {
    const auto one = list<std::uint64_t>();
    if (one.size() != 1) fail_packed();
    return one[0];
  }
  void end() const {
    if (!left_.empty()) fail_packed();
  }

 private:
  [[noreturn]] static void fail_packed() {
    fail(ErrorCode::internal, "a request to bitrift-hdf5 is damaged");
  }
  std::span<const std::uint8_t> take(std::size_t size) {
    if (size > left_.size()) fail_packed();
    const auto taken = left_.first(size);
    left_ = left_.subspan(size);
    return taken;
  }
  std::span<const std::uint8_t> left_;
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
  request.task = static_cast<FilterTask>(from.number());
  const auto text = from.list<char>();
  request.where.assign(text.begin(), text.end());
  request.spec.datatype = from.list<std::uint8_t>();
  request.spec.chunk = from.list<std::uint64_t>();
  request.spec.element_bytes = from.number();
  for (std::uint64_t left = from.number(); left > 0; --left) {
    PipelineFilter filter;
    filter.id = static_cast<unsigned>(from.number());
    filter.optional = from.number() != 0;
    filter.values = from.list<std::uint32_t>();
    request.spec.filters.push_back(std::move(filter));
  }
  request.chunk.mask = static_cast<std::uint32_t>(from.number());
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
  chunk.mask = static_cast<std::uint32_t>(from.number());
  chunk.bytes = from.list<std::uint8_t>();
  from.end();
  return chunk;
}

}  // namespace bitrift::h5
