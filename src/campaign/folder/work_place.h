// The place of the workers' private copies while a driver works.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "campaign/worker/held_folder.h"

namespace bitrift::campaign {

/// Bytes that unprivileged users may still write to the file system of `path` (or of its nearest existing
/// parent). Throws Error(io).
[[nodiscard]] std::uint64_t free_space(const std::filesystem::path& path);

/// Bytes of memory that this process may still use: the memory that the system has available, or less if a
/// control group (cgroup v2) of this process allows less. 0 when the system does not say.
[[nodiscard]] std::uint64_t available_memory();

/// Decides where copies go.
struct WorkQuestion {
  std::filesystem::path root;                  ///< the campaign's folder
  std::filesystem::path inside;                ///< its folder for work, used when no other place is suitable
  std::optional<std::filesystem::path> asked;  ///< --work-dir
  std::uint64_t bytes = 0;                     ///< of all copies together
  bool memory_serves = true;                   ///< all readers of the copies run on this machine
  std::filesystem::path memory = "/dev/shm";   ///< a file system in memory
};

/// Removes a folder for work, and the place of copies that an earlier driver's link in it names.
void remove_work(const std::filesystem::path& inside) noexcept;

/// A folder for private copies: where the user asked for it; otherwise in memory, when twice the copies' size
/// and 256 MiB for MPI's segments are free there and they take at most a quarter of the available memory;
/// otherwise inside the campaign's folder. A killed driver leaves it behind; a link in `inside` tells the
/// next driver what to remove, even if that driver works elsewhere. If the campaign is never resumed, the
/// next driver of another one removes what is left in memory.
class WorkPlace {
 public:
  /// Call it only while holding the campaign's lock: it first removes what an earlier driver left. Throws
  /// Error(io | bad_input) when the requested folder cannot be made.
  explicit WorkPlace(const WorkQuestion& question);
  ~WorkPlace();  ///< removes the folder for copies and the link
  WorkPlace(WorkPlace&&) = delete;
  WorkPlace& operator=(WorkPlace&&) = delete;

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  /// A worker's private copy; its folder is made. Throws Error(io).
  [[nodiscard]] std::filesystem::path copy(const std::string& worker) const;

 private:
  void use(const std::filesystem::path& parent, const std::filesystem::path& root);

  std::filesystem::path link_;
  std::filesystem::path folder_;
  std::optional<HeldFolder> elsewhere_;
};

}  // namespace bitrift::campaign
