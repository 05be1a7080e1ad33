#include "archive/bounded_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "core/error.h"

namespace bitrift::archive {

BoundedFile::BoundedFile(const std::filesystem::path& path)
    : name_(path.string()),
      fd_(std::make_shared<const FileDescriptor>(open_file(path, O_RDONLY | O_NONBLOCK))) {
  struct stat status {};
  if (::fstat(fd_->get(), &status) == 0 && !S_ISREG(status.st_mode)) {
    fail(ErrorCode::bad_file, "{}: is not a regular file", name_);
  }
  size_ = size_of(*fd_, path);
}

BoundedFile::BoundedFile(FileDescriptor fd, std::string name)
    : name_(std::move(name)), fd_(std::make_shared<const FileDescriptor>(std::move(fd))) {
  size_ = size_of(*fd_, name_);
}

BoundedFile BoundedFile::part(std::uint64_t first, std::uint64_t bytes, std::string name) const {
  check(first, bytes, name);
  BoundedFile part;
  part.name_ = std::move(name);
  part.fd_ = fd_;
  part.first_ = first_ + first;
  part.size_ = bytes;
  return part;
}

void BoundedFile::check(std::uint64_t offset, std::uint64_t bytes, std::string_view what) const {
  if (offset <= size_ && bytes <= size_ - offset) return;
  fail(ErrorCode::bad_file, "{}: {} ({} bytes at byte {}) lies outside of the file of {} bytes", name_, what,
       bytes, offset, size_);
}

void BoundedFile::read(std::uint64_t offset, std::span<std::uint8_t> out, std::string_view what) const {
  check(offset, out.size(), what);
  read_at(*fd_, out.data(), out.size(), first_ + offset, name_);
  if (const auto [byte, mask] = flipped_; byte >= offset && byte - offset < out.size())
    out[byte - offset] ^= mask;
}

std::vector<std::uint8_t> BoundedFile::read(std::uint64_t offset, std::uint64_t bytes,
                                            std::string_view what) const {
  check(offset, bytes, what);  // checked before the memory is allocated
  std::vector<std::uint8_t> out(bytes);
  read(offset, out, what);
  return out;
}

std::string printable(std::string_view name) {
  constexpr std::size_t most = 80;
  std::string text(name.substr(0, most));
  for (char& one : text) {
    if (one < ' ' || one > '~') one = '?';
  }
  return name.size() > most ? text + "..." : text;
}

}  // namespace bitrift::archive
