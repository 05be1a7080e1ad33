#include "campaign/folder/own_folder.h"

#include <system_error>

#include <fcntl.h>

#include "core/error.h"

namespace bitrift::campaign {

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail(ErrorCode::io, "{}: cannot create the folder: {}", path.string(), error.message());
}

FileDescriptor lock_folder(const std::filesystem::path& root, const std::filesystem::path& lock,
                           const std::string& command) {
  FileDescriptor descriptor = open_file(lock, O_RDWR | O_CREAT);
  try {
    lock_exclusive(descriptor, lock);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::busy) throw;
    fail(ErrorCode::busy, "{}: another `{}` is running in this folder; wait for it or stop it", root.string(),
         command);
  }
  return descriptor;
}

void refuse_foreign(const std::filesystem::path& root, const std::filesystem::path& identity,
                    const std::set<std::string>& ours) {
  std::error_code error;
  if (!std::filesystem::exists(root, error)) return;
  if (!std::filesystem::is_directory(root, error))
    fail(ErrorCode::bad_input, "{}: not a folder; give another -o", root.string());
  if (std::filesystem::exists(identity, error)) return;
  const std::string file = identity.filename().string();
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    const std::string name = entry.path().filename().string();
    if (ours.contains(name) || name.starts_with("." + file + ".tmp-")) continue;
    // A shard that starts at the same time may have made this entry; it writes its identity first.
    if (std::filesystem::exists(identity, error)) return;
    fail(ErrorCode::bad_input, "{}: holds {} but no {}; give an empty or new folder", root.string(), name,
         file);
  }
  if (error) fail(ErrorCode::io, "{}: cannot be listed: {}", root.string(), error.message());
}

}  // namespace bitrift::campaign
