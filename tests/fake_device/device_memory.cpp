#include "device_memory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <new>

#include <sys/mman.h>

#include "settings.h"

namespace fake_device {
namespace {

constexpr std::size_t least_block = 256;  // bytes

char* map(bool open) {
  void* const at = ::mmap(nullptr, DeviceMemory::span, open ? PROT_READ | PROT_WRITE : PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(at);
}

}  // namespace

DeviceMemory::DeviceMemory() : shown_(map(works_later())), real_(map(true)) {
  if (works_later()) last_ = map(true);
}

void* DeviceMemory::allocate(std::size_t size) {
  const std::size_t place = std::bit_ceil(std::max(size, least_block));
  const std::lock_guard lock(mutex_);
  auto& free = free_[place];
  std::size_t at = end_;
  if (free.empty()) {
    if (span - end_ < place) throw std::bad_alloc();
    end_ += place;
    used_[at] = {place, false};
  } else {
    at = free.back();
    free.pop_back();
  }
  std::memset(real_ + at, 0xFF, size);
  if (works_later()) {
    // What fills new memory is work, too, and the work of its former owner may still wait. What the host
    // wrote for that one is of no interest.
    used_[at].pending = true;
    std::memcpy(last_ + at, shown_ + at, place);
  }
  return shown_ + at;
}

void DeviceMemory::release(const void* address) {
  const std::lock_guard lock(mutex_);
  const std::size_t at = offset(address);
  free_[used_.at(at).size].push_back(at);
}

bool DeviceMemory::holds(const void* address) const {
  const auto* byte = static_cast<const char*>(address);
  return byte >= shown_ && byte < shown_ + span;
}

char* DeviceMemory::values(const void* address, bool written) {
  const std::size_t at = offset(address);
  if (works_later()) {
    const std::lock_guard lock(mutex_);
    auto block = std::prev(used_.upper_bound(at));
    take_host_writes(block->first, block->second);
    if (written) block->second.pending = true;
  }
  return real_ + at;
}

void DeviceMemory::synchronize() {
  const std::lock_guard lock(mutex_);
  for (auto& [at, block] : used_) {
    if (!block.pending) continue;
    take_host_writes(at, block);
    std::memcpy(shown_ + at, real_ + at, block.size);
    std::memcpy(last_ + at, real_ + at, block.size);
    block.pending = false;
  }
}

std::size_t DeviceMemory::offset(const void* address) const {
  return static_cast<std::size_t>(static_cast<const char*>(address) - shown_);
}

void DeviceMemory::take_host_writes(std::size_t at, Block& block) {
  if (std::memcmp(shown_ + at, last_ + at, block.size) == 0) return;
  if (block.pending) {
    std::fprintf(stderr,
                 "fake device: the host wrote to device memory while work on it waits: no synchronization\n");
    std::abort();
  }
  std::memcpy(real_ + at, shown_ + at, block.size);
  std::memcpy(last_ + at, shown_ + at, block.size);
}

DeviceMemory& memory_of(int device) {
  static std::array<DeviceMemory*, most_devices> all{};
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  auto& one = all.at(static_cast<std::size_t>(device));
  if (one == nullptr) one = new DeviceMemory;
  return *one;
}

}  // namespace fake_device
