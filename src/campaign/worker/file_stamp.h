// What shows whether a file was changed, without reading it.
#pragma once

#include <filesystem>
#include <optional>

#include <sys/stat.h>

namespace bitrift::campaign {

/// The fields of a file's status that every change of it changes. The times are from the kernel's clock,
/// which nobody sets back by chance; a change through shared mapped memory may not show in them.
class FileStamp {
 public:
  /// Follows links; nullopt, with the reason in errno, if there is no such file.
  [[nodiscard]] static std::optional<FileStamp> of(const std::filesystem::path& path);
  [[nodiscard]] bool operator==(const FileStamp& other) const noexcept;

 private:
  struct stat status_ {};
};

}  // namespace bitrift::campaign
