// Memory for copies of a state. Inside train/ only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bitrift::train {

/// One block of pages that have been written, huge ones where the kernel has them: a copy to new pages takes
/// several times as long as one to used pages, and small pages cost a look-up for every 4 KiB.
class CopyMemory {
 public:
  CopyMemory() = default;
  ~CopyMemory();
  CopyMemory(CopyMemory&&) = delete;
  CopyMemory& operator=(CopyMemory&&) = delete;

  /// At least so many bytes; what was there before is lost if there were fewer. Throws Error(io) when the
  /// machine does not have them.
  void reserve(std::size_t bytes);
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint8_t* data() const noexcept { return data_; }

 private:
  void release() noexcept;

  std::uint8_t* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace bitrift::train
