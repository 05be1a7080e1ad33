#include "train/state/copy_memory.h"

#include <cstdint>
#include <cstring>

#include <sys/mman.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "core/process/memory.h"

namespace bitrift::train {

CopyMemory::~CopyMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void CopyMemory::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return;
  ckpt::check_memory(bytes - bytes_, "a copy of the state");
  void* const whole = data_ == nullptr
                          ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                          : ::mremap(data_, bytes_, bytes, MREMAP_MAYMOVE);
  if (whole == MAP_FAILED) ckpt::fail_memory(bytes, "a copy of the state");
  ::madvise(whole, bytes, MADV_HUGEPAGE);  // only advice
  data_ = static_cast<std::uint8_t*>(whole);
  std::memset(data_ + bytes_, 0, bytes - bytes_);
  bytes_ = bytes;
}

namespace {

// Below this size, the read before a store matters little, and the fence matters.
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
