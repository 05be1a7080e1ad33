#include "study/part/saved_files.h"

namespace bitrift::study {

std::map<std::string, std::filesystem::path> saved_files(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {{"", path}};
  std::map<std::string, std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) files[entry.path().lexically_relative(path).string()] = entry.path();
  }
  return files;
}

std::uint64_t saved_bytes(const std::filesystem::path& path) {
  std::uint64_t sum = 0;
  for (const auto& [name, file] : saved_files(path)) sum += std::filesystem::file_size(file);
  return sum;
}

}  // namespace bitrift::study
