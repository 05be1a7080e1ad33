// Where the workers' private copies lie while a driver works.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace bitrift::campaign {

/// Bytes that unprivileged users may still write into the file system of `path` (or of its nearest parent
/// that is there). Throws Error(io).
[[nodiscard]] std::uint64_t free_space(const std::filesystem::path& path);

/// Bytes of memory that this process may still take: what the system has available, less where a control
/// group (cgroup v2) of this process allows less. 0 when the system does not say.
[[nodiscard]] std::uint64_t available_memory();

/// What decides where copies go.
struct WorkQuestion {
  std::filesystem::path root;                  ///< the campaign's folder
  std::filesystem::path inside;                ///< its folder for work, used when nothing else serves
  std::optional<std::filesystem::path> asked;  ///< --work-dir
  std::uint64_t bytes = 0;                     ///< of all copies together
  bool memory_serves = true;                   ///< all readers of the copies run on this machine
  std::filesystem::path memory = "/dev/shm";   ///< a file system in memory
};

/// Removes a folder for work, and the place of copies that an earlier driver's link in it names.
void remove_work(const std::filesystem::path& inside) noexcept;

/// A folder for private copies: where the user asked for it; else in memory, when twice the copies' size and
/// 256 MiB for MPI's segments are free there and they take at most a quarter of the available memory; else
/// inside the campaign's folder. A driver that is killed leaves it behind; a link in `inside` tells the next
/// one what to remove, also when that one is asked to work elsewhere.
class WorkPlace {
 public:
  /// Call it only while holding the campaign's lock: what an earlier driver left is removed first. Throws
  /// Error(io | bad_input) when the folder that was asked for cannot be made.
  explicit WorkPlace(const WorkQuestion& question);
  ~WorkPlace();  ///< removes the folder, the link too
  WorkPlace(WorkPlace&&) = delete;
  WorkPlace& operator=(WorkPlace&&) = delete;

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  /// A worker's private copy; its folder is made. Throws Error(io).
  [[nodiscard]] std::filesystem::path copy(const std::string& worker) const;

 private:
  void use(const std::filesystem::path& parent, const std::filesystem::path& root);

  std::filesystem::path link_;
  std::filesystem::path folder_;
  bool elsewhere_ = false;  // folder_ is this driver's own
};

}  // namespace bitrift::campaign
