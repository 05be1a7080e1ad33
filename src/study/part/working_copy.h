// A private copy of a checkpoint, in which bits are flipped and flipped back.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "study/part/file_bits.h"

namespace bitrift::study {

/// A copy of a file, or of a folder with all its files. The original is only read.
class WorkingCopy {
 public:
  /// Copies `original` to `path`, over whatever is there. Throws Error(io).
  WorkingCopy(std::filesystem::path original, std::filesystem::path path);
  ~WorkingCopy();  ///< removes it
  WorkingCopy(WorkingCopy&&) = delete;
  WorkingCopy& operator=(WorkingCopy&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Flips a bit; a second flip of the same bit undoes the first. Throws Error(io).
  void flip(const BitFault& fault) const;
  /// Sets all bytes of these extents to zero.
  void zero(const std::vector<BitExtent>& extents) const;
  /// Copies again: a reader that died may have changed the files.
  void renew() const;

 private:
  [[nodiscard]] std::filesystem::path file(const std::string& name) const;

  std::filesystem::path original_, path_;
};

/// Digest of a file, or of names and contents of all files in a folder. Throws Error(not_found | io).
[[nodiscard]] std::string digest_of_files(const std::filesystem::path& path);

}  // namespace bitrift::study
