// The memory of a fake device.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace fake_device {

/// `shown` has the addresses that programs see, `real` has the values. Between synchronizations they differ
/// where work is done later; where it is done at once, nobody may touch `shown`.
class DeviceMemory {
 public:
  static constexpr std::size_t span = std::size_t{1} << 34U;  // bytes of addresses, not of memory

  /// Throws std::bad_alloc when there are no addresses.
  DeviceMemory();

  /// New memory is NaN in every floating-point format. Throws std::bad_alloc when all of `span` is used.
  [[nodiscard]] void* allocate(std::size_t size);
  void release(const void* address);
  [[nodiscard]] bool holds(const void* address) const;
  /// The values at an address; what the host has written to its block arrives first. written: they are going
  /// to be changed.
  [[nodiscard]] char* values(const void* address, bool written);
  /// The host sees the values of work until now. Ends the process if it has written where work was waiting.
  void synchronize();

 private:
  struct Block {
    std::size_t size = 0;
    bool pending = false;  ///< work on it waits for a synchronization
  };

  [[nodiscard]] std::size_t offset(const void* address) const;
  void take_host_writes(std::size_t at, Block& block);

  std::mutex mutex_;
  char* shown_ = nullptr;
  char* real_ = nullptr;
  char* last_ = nullptr;  ///< what `shown` had after the last synchronization
  std::size_t end_ = 0;
  std::map<std::size_t, Block> used_;
  std::map<std::size_t, std::vector<std::size_t>> free_;  ///< by size
};

/// The memory of a device. It is never destroyed: threads may use it while the process ends.
[[nodiscard]] DeviceMemory& memory_of(int device);

}  // namespace fake_device
