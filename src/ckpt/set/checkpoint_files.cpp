#include "ckpt/set/checkpoint_files.h"

#include <algorithm>
#include <system_error>

#include "ckpt/set/file_set.h"
#include "core/digest.h"
#include "core/error.h"

namespace bitrift::ckpt {

std::vector<std::filesystem::path> files_of(const std::filesystem::path& checkpoint) {
  const auto root = root_of_set(checkpoint);
  std::error_code error;
  if (!std::filesystem::is_directory(root, error)) return {root};
  std::vector<std::filesystem::path> files;
  std::filesystem::recursive_directory_iterator entry(root, error);
  for (; !error && entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code none;
    if (!entry->is_directory(none)) files.push_back(entry->path());
  }
  if (error) fail(ErrorCode::io, "{}: cannot be listed: {}", root.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

std::string digest_of(const std::filesystem::path& checkpoint) {
  const auto root = root_of_set(checkpoint);
  if (!std::filesystem::is_directory(root)) return digest_file(root);
  Digest all;
  for (const auto& file : files_of(root))
    all.add(file.lexically_relative(root).string()).add("\t").add(digest_file(file)).add("\n");
  return all.hex();
}

std::uint64_t bytes_of(const std::filesystem::path& checkpoint) {
  std::uint64_t sum = 0;
  for (const auto& file : files_of(checkpoint)) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    if (error) fail(ErrorCode::io, "{}: {}", file.string(), error.message());
    sum += size;
  }
  return sum;
}

void link_folder(const std::filesystem::path& folder, const std::filesystem::path& links) {
  std::error_code error;
  const auto check = [&](const std::filesystem::path& path) {
    if (error) fail(ErrorCode::io, "cannot make {}: {}", path.string(), error.message());
  };
  const auto root = std::filesystem::canonical(folder, error);
  check(links);
  std::filesystem::create_directories(links, error);
  check(links);
  for (const auto& file : files_of(root)) {
    const auto link = links / file.lexically_relative(root);
    std::filesystem::create_directories(link.parent_path(), error);
    check(link);
    std::filesystem::create_symlink(file, link, error);
    check(link);
  }
}

}  // namespace bitrift::ckpt
