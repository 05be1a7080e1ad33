// Memory for copies of a state. Inside train/ only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bitrift::train {

/// One block of pages that have been written, huge ones if the kernel has them: a copy to new pages takes
/// several times as long as one to used pages, and small pages cost a look-up for every 4 KiB.
class CopyMemory {
 public:
  CopyMemory() = default;
  ~CopyMemory();
  CopyMemory(CopyMemory&&) = delete;
  CopyMemory& operator=(CopyMemory&&) = delete;

  /// Has at least this many bytes; existing ones stay. Throws Error(io) when the machine does not have them.
  void reserve(std::size_t bytes);
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint8_t* data() const noexcept { return data_; }

 private:
  std::uint8_t* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// memcpy, for data that will not be read soon: large arrays are written straight to memory. A store into a
/// cache reads the line first, which the C library avoids only for arrays that are large compared with the
/// cache: with 480 MB of cache, five arrays of 44 MB took 33 ms, and this way 24 ms.
void copy_past_caches(void* to, const void* from, std::size_t bytes) noexcept;

}  // namespace bitrift::train
