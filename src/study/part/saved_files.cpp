#include "study/part/saved_files.h"

#include <system_error>

#include "core/error.h"

namespace bitrift::study {

std::map<std::string, std::filesystem::path> saved_files(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {{"", path}};
  std::map<std::string, std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files[entry.path().lexically_relative(path).string()] = entry.path();
  }
  return files;
}

void copy_saved(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::remove_all(to, error);
  std::filesystem::create_directories(to.parent_path(), error);
  std::filesystem::copy(from, to, std::filesystem::copy_options::recursive, error);
  if (error)
    fail(ErrorCode::io, "{}: cannot be copied to {}: {}", from.string(), to.string(), error.message());
}

std::uint64_t saved_bytes(const std::filesystem::path& path) {
  std::uint64_t sum = 0;
  for (const auto& [name, file] : saved_files(path)) sum += std::filesystem::file_size(file);
  return sum;
}

}  // namespace bitrift::study
