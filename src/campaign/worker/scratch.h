// Where a worker's launcher may leave things behind.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "campaign/worker/held_folder.h"

namespace bitrift::campaign {

/// A folder for the files that MPI keeps outside of a process: session files and shared-memory segments.
/// Processes that are killed by a signal leave their files behind (16 MiB a rank or more); they are removed
/// with this folder. It is in /dev/shm if that exists, because segments on a disk are slow, else in the
/// system's folder for temporary files.
class Scratch {
 public:
  /// Recreates the folder, without what an earlier driver of this name left in it. If that is not possible
  /// (another user's folder has the name), path() is empty, and the launcher chooses a folder. The folder is
  /// removed with this object.
  explicit Scratch(const std::string& name);
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return folder_.path(); }

 private:
  HeldFolder folder_;
};

/// Removes what killed drivers of this campaign left behind; call it only while holding the campaign's lock.
/// Folders of replays stay, because a replay may be running.
void remove_scratch_of(const std::filesystem::path& root) noexcept;

/// Removes the folders in `parent` that scratch_name() names for this user, of whatever campaign, unless a
/// process holds them.
void remove_abandoned_scratch(const std::filesystem::path& parent) noexcept;

/// "bitrift-<user id>-<digest of the campaign's folder>-<worker>": the next start knows it, and cleans up
/// after a killed one.
[[nodiscard]] std::string scratch_name(const std::filesystem::path& root, const std::string& worker);

/// Whether scratch_name() gives this user such a name.
[[nodiscard]] bool is_scratch_name(std::string_view name);

}  // namespace bitrift::campaign
