#include "train/state/copy_memory.h"

#include <cstring>

#include <sys/mman.h>

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

}  // namespace bitrift::train
