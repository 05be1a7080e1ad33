#include "core/file_run.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <unistd.h>

#include "core/error.h"

namespace bitrift {

void FileList::add(std::string name, std::uint64_t bytes) {
  parts.push_back({std::move(name), bytes, parts.empty() ? 0 : parts.back().end()});
}

FileList FileList::in(std::filesystem::path copy) const { return {std::move(copy), parts}; }

std::size_t FileList::part_of(std::uint64_t offset) const noexcept {
  if (parts.empty()) return 0;
  const auto next = std::partition_point(parts.begin(), parts.end(),
                                         [offset](const Part& part) { return part.end() <= offset; });
  return static_cast<std::size_t>(std::min(next, parts.end() - 1) - parts.begin());
}

std::filesystem::path FileList::path_of(std::size_t part) const {
  return parts.empty() ? root : root / parts[part].name;
}

std::uint64_t FileList::within(std::uint64_t offset) const noexcept {
  return parts.empty() ? offset : offset - parts[part_of(offset)].first;
}

std::string FileList::place(std::uint64_t offset) const {
  return fmt::format("{}: byte {}", path_of(part_of(offset)).string(), within(offset));
}

bool stays_in_folder(const std::string& name) {
  const std::filesystem::path path = name;
  if (path.empty() || path.is_absolute() || name.find('\0') != std::string::npos) return false;
  for (const auto& part : path) {
    if (part == "..") return false;
  }
  return true;
}

FileRun::FileRun(FileList files, int flags)
    : files_(std::move(files)), flags_(flags), open_(std::max<std::size_t>(files_.parts.size(), 1)) {
  if (!files_.several()) static_cast<void>(part(0));
}

const FileDescriptor& FileRun::part(std::size_t index) const {
  FileDescriptor& one = open_[index];
  if (!one) one = open_file(files_.path_of(index), flags_);
  return one;
}

/// Calls `transfer` for each part of the bytes that lies in one file: (descriptor, its path, bytes before
/// this part, bytes, offset in the file).
template <typename Transfer>
void FileRun::each(std::size_t size, std::uint64_t offset, Transfer transfer) const {
  if (!files_.several()) return transfer(open_[0], files_.root, 0, size, offset);
  std::size_t index = files_.part_of(offset);
  for (std::size_t done = 0; done < size; ++index) {
    const FileList::Part& here = files_.parts[index];
    const std::uint64_t at = offset + done - here.first;
    const bool last = index + 1 == files_.parts.size();
    const std::size_t piece = last ? size - done : std::min<std::uint64_t>(size - done, here.bytes - at);
    if (piece > 0) transfer(part(index), files_.path_of(index), done, piece, at);
    done += piece;
  }
}

void FileRun::read(void* data, std::size_t size, std::uint64_t offset) const {
  each(size, offset,
       [data](const auto& fd, const auto& path, std::size_t done, std::size_t piece, std::uint64_t at) {
         read_at(fd, static_cast<char*>(data) + done, piece, at, path);
       });
}

void FileRun::write(const void* data, std::size_t size, std::uint64_t offset) const {
  each(size, offset,
       [data](const auto& fd, const auto& path, std::size_t done, std::size_t piece, std::uint64_t at) {
         write_at(fd, static_cast<const char*>(data) + done, piece, at, path);
       });
}

std::uint64_t FileRun::bytes() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < open_.size(); ++i) sum += size_of(part(i), files_.path_of(i));
  return sum;
}

void FileRun::truncate(std::uint64_t bytes) const {
  if (files_.several())
    fail(ErrorCode::internal, "{}: only a single file is truncated", files_.root.string());
  if (::ftruncate(open_[0].get(), static_cast<off_t>(bytes)) == 0) return;
  fail(ErrorCode::io, "{}: cannot be truncated to {} bytes: {}", files_.root.string(), bytes,
       errno_text(errno));
}

void FileRun::sync() const {
  for (std::size_t i = 0; i < open_.size(); ++i) {
    if (open_[i]) sync_file(open_[i], files_.path_of(i));
  }
}

void FileRun::lock() const {
  for (std::size_t i = 0; i < open_.size(); ++i) lock_exclusive(part(i), files_.path_of(i));
}

void FileRun::close() {
  for (std::size_t i = 0; i < open_.size(); ++i) {
    if (!open_[i] || ::close(open_[i].release()) == 0) continue;
    fail(ErrorCode::io, "cannot write {}: {}", files_.path_of(i).string(), errno_text(errno));
  }
}

}  // namespace bitrift
