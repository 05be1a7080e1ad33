// Shows whether a file was changed, without reading it.
#pragma once

#include <filesystem>
#include <optional>

#include <sys/stat.h>

namespace bitrift::campaign {

/// The fields of a file's status that change whenever the file does. Its times come from the kernel's clock,
/// which is not set back by chance. A write through a shared memory mapping may leave them as they are.
class FileStamp {
 public:
  /// Follows links; nullopt, with the reason in errno, if there is no such file.
  [[nodiscard]] static std::optional<FileStamp> of(const std::filesystem::path& path);
  [[nodiscard]] bool operator==(const FileStamp& other) const noexcept;

 private:
  struct stat status_ {};
};

}  // namespace bitrift::campaign
