#include "campaign/worker/file_stamp.h"

#include <tuple>

namespace bitrift::campaign {
namespace {

auto fields_of(const struct stat& file) {
  return std::tuple(file.st_dev, file.st_ino, file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec,
                    file.st_ctim.tv_sec, file.st_ctim.tv_nsec);
}

}  // namespace

std::optional<FileStamp> FileStamp::of(const std::filesystem::path& path) {
  FileStamp stamp;
  if (::stat(path.c_str(), &stamp.status_) != 0) return std::nullopt;
  return stamp;
}

bool FileStamp::operator==(const FileStamp& other) const noexcept {
  return fields_of(status_) == fields_of(other.status_);
}

}  // namespace bitrift::campaign
