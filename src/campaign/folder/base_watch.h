// Checks that the base does not change, also while a campaign runs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "campaign/worker/file_stamp.h"

namespace bitrift::campaign {

/// Checks inode, size and times of the file, or of all files of a folder; if any of these changed, re-reads
/// them.
class BaseWatch {
 public:
  /// Reads the file. Throws as check() does.
  BaseWatch(std::filesystem::path path, std::string digest);
  /// Calls only stat(2) if the file was not touched. Throws Error(conflict) with its name if its contents
  /// changed, Error(not_found | io) when it cannot be read.
  void check();

 private:
  std::filesystem::path path_;
  std::string digest_;
  std::vector<FileStamp> seen_;
};

/// Throws Error(conflict), which names the file, if its digest has changed.
void check_digest(const std::filesystem::path& path, const std::string& digest);

}  // namespace bitrift::campaign
