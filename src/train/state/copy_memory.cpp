#include "train/state/copy_memory.h"

#include <cstdint>
#include <cstring>

#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "core/process/memory.h"

namespace bitrift::train {

CopyMemory::~CopyMemory() { release(); }

void CopyMemory::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return;
  release();
  ckpt::check_memory(bytes, "a copy of the state");
  void* const fresh = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) ckpt::fail_memory(bytes, "a copy of the state");
  ::madvise(fresh, bytes, MADV_HUGEPAGE);  // only advice
  std::memset(fresh, 0, bytes);
  data_ = static_cast<std::uint8_t*>(fresh);
  bytes_ = bytes;
}

void CopyMemory::release() noexcept {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = 0;
}

namespace {

// Below this, what a store into caches reads first matters little, and the fence does.
constexpr std::size_t least_streamed = std::size_t{1} << 20;

}  // namespace

void copy_past_caches(void* to, const void* from, std::size_t bytes) noexcept {
#ifdef __SSE2__
  if (bytes >= least_streamed) {
    constexpr std::size_t line = 64, wide = sizeof(__m128i);
    auto* out = static_cast<std::uint8_t*>(to);
    const auto* in = static_cast<const std::uint8_t*>(from);
    const std::size_t head = (line - reinterpret_cast<std::uintptr_t>(out) % line) % line;
    std::memcpy(out, in, head);
    const std::size_t end = head + (bytes - head) / line * line;
    for (std::size_t at = head; at < end; at += line) {
      for (std::size_t part = at; part < at + line; part += wide) {
        const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + part));
        _mm_stream_si128(reinterpret_cast<__m128i*>(out + part), four);
      }
    }
    _mm_sfence();
    std::memcpy(out + end, in + end, bytes - end);
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

}  // namespace bitrift::train
