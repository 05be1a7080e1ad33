// A folder of one process, in a place that all processes of the machine share.
#pragma once

#include <filesystem>
#include <utility>

#include "core/file.h"

namespace bitrift::campaign {

/// A folder that is removed with this object. The process holds a lock on it while the object lives, so a
/// folder without a lock was left behind by a killed program.
class HeldFolder {
 public:
  HeldFolder() = default;
  /// Makes an empty folder, without what a killed program left under this name. Throws Error(io).
  explicit HeldFolder(const std::filesystem::path& path);
  HeldFolder(HeldFolder&& other) noexcept
      : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}
  HeldFolder& operator=(HeldFolder&&) = delete;
  ~HeldFolder();

  /// Empty if there is none.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  FileDescriptor lock_;
};

/// Removes such a folder unless a process holds it.
void remove_abandoned(const std::filesystem::path& folder);

}  // namespace bitrift::campaign
