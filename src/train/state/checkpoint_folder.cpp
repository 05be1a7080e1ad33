#include "train/state/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "ckpt/reader.h"
#include "core/crc32c.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "train/state/checkpoint_spec.h"

namespace bitrift::train {
namespace {

constexpr std::string_view beside_end = ".json";

void check_contents(const ckpt::Reader& reader) {
  constexpr std::uint64_t piece = std::uint64_t{1} << 20;  // bytes
  std::vector<char> buffer;
  for (const ckpt::TensorInfo& tensor : reader.tensors()) {
    if (tensor.role == "checksum") continue;
    const auto stored = reader.checksum(tensor.path);
    if (!stored) fail(ErrorCode::bad_file, "tensor {} has no checksum", tensor.path);
    // Compressed data is read as a whole: each piece might cost as much.
    const std::uint64_t count = tensor.elements();
    const std::uint64_t most =
        tensor.offset ? std::max<std::uint64_t>(1, piece / std::max<std::uint64_t>(1, tensor.element_bytes))
                      : count;
    std::uint32_t crc = crc32c(nullptr, 0);
    for (std::uint64_t at = 0; at < count; at += most) {
      const std::uint64_t here = std::min(most, count - at);
      buffer.resize(here * tensor.element_bytes);
      reader.read_elements(tensor, at, here, buffer.data());
      crc = crc32c(buffer.data(), buffer.size(), crc);
    }
    if (crc != stored->value)
      fail(ErrorCode::bad_file, "tensor {} does not match its stored checksum", tensor.path);
  }
}

// Throws Error or, if sizes in a damaged file make no sense, what the standard library throws.
void check(const FolderCheckpoint& checkpoint, Look look) {
  const ckpt::Reader reader(checkpoint.path);
  (void)checkpoint_spec(reader);
  const std::int64_t step = integer_in(reader, "progress/step", -1);
  if (step != checkpoint.step) fail(ErrorCode::bad_file, "its step is {}, not that of its name", step);
  if (look == Look::contents) check_contents(reader);
}

// A file without read permission is not damaged: another user would continue from it.
void check_permission(const std::filesystem::path& path) {
  if (::faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) == 0 || (errno != EACCES && errno != EPERM))
    return;
  fail(ErrorCode::io, "{}: cannot be read: {}; allow it, or move the file elsewhere", path.string(),
       std::generic_category().message(errno));
}

// The rest of an error that may name the file itself.
std::string without_path(const std::string& text, const std::filesystem::path& path) {
  const std::string start = path.string() + ": ";
  return text.starts_with(start) ? text.substr(start.size()) : text;
}

void remove_logged(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::remove(path, error);
  if (error) spdlog::warn("{}: cannot be removed: {}", path.string(), error.message());
}

bool opens(const FolderCheckpoint& one) {
  try {
    check(one, Look::header);
    return true;
  } catch (const std::exception&) {  // as newest_valid()
    return false;
  }
}

}  // namespace

std::vector<FolderCheckpoint> checkpoints_in(const std::filesystem::path& folder) {
  std::vector<FolderCheckpoint> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (const auto step = step_of_name(entry->path().filename().string()))
      found.push_back({entry->path(), *step});
  }
  if (error) {
    fail(error == std::errc::no_such_file_or_directory ? ErrorCode::not_found : ErrorCode::io,
         "cannot read the folder {}: {}", folder.string(), error.message());
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step > b.step; });
  return found;
}

void check_names(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(folder, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    std::filesystem::path owner = entry->path().filename();
    if (owner.extension() == beside_end) owner.replace_extension();
    const auto step = step_of_name(owner.string());
    std::error_code unknown;
    if (!step || !entry->exists(unknown) || entry->is_regular_file(unknown)) continue;
    fail(ErrorCode::bad_input,
         "{} is {}, so the checkpoint of step {} cannot be written there; move it elsewhere",
         entry->path().string(), entry->is_directory(unknown) ? "a folder" : "not a regular file", *step);
  }
}

Newest newest_valid(const std::filesystem::path& folder, Look look) {
  Newest newest;
  for (FolderCheckpoint& one : checkpoints_in(folder)) {
    check_permission(one.path);
    try {
      check(one, look);
      newest.checkpoint = std::move(one);
      return newest;
    } catch (const std::exception& error) {
      newest.skipped.push_back(
          fmt::format("{}: skipped: {}", one.path.string(), without_path(error.what(), one.path)));
    }
  }
  if (newest.skipped.empty()) {
    fail(ErrorCode::bad_file, "{}: holds no checkpoint, no file with a name like {}", folder.string(),
         checkpoint_name(120));
  }
  fail(ErrorCode::bad_file, "{}: none of its {} checkpoint(s) is valid; the newest is {}", folder.string(),
       newest.skipped.size(), newest.skipped.front());
}

void remove_older(const std::filesystem::path& folder, std::int64_t step, int keep) noexcept {
  try {
    for (const FolderCheckpoint& one : checkpoints_in(folder)) {
      if (one.step > step) continue;
      if (keep > 0) {
        // A damaged file must not push out a valid one.
        if (one.step == step || opens(one)) --keep;
        continue;
      }
      remove_logged(one.path);
      remove_logged(one.path.string() + std::string(beside_end));
    }
  } catch (const std::exception& error) {
    spdlog::warn("older checkpoints were not removed: {}", error.what());
  }
}

void remove_unfinished(const std::filesystem::path& folder) {
  remove_leftovers(folder, [](std::string_view target) {
    if (target.ends_with(beside_end)) target.remove_suffix(beside_end.size());
    return step_of_name(target).has_value();
  });
  std::error_code ignored;
  std::vector<std::filesystem::path> alone;
  for (std::filesystem::directory_iterator entry(folder, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    std::filesystem::path owner = entry->path();
    if (owner.extension() != beside_end || !step_of_name(owner.replace_extension().filename().string()))
      continue;
    if (!std::filesystem::exists(owner, ignored)) alone.push_back(entry->path());
  }
  for (const std::filesystem::path& path : alone) remove_logged(path);
}

}  // namespace bitrift::train
