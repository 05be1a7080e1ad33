#include "core/unnamed_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/mman.h>

#include "core/error.h"

namespace bitrift {

FileDescriptor memory_file(std::span<const std::uint8_t> bytes, const std::string& name) {
  FileDescriptor fd(::memfd_create("bitrift", MFD_CLOEXEC));
  if (!fd) fail(ErrorCode::io, "cannot unpack {}: {}", name, errno_text(errno));
  write_at(fd, bytes.data(), bytes.size(), 0, name);
  return fd;
}

FileDescriptor duplicate(const FileDescriptor& fd, const std::string& path) {
  if (!fd) return {};
  FileDescriptor copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) fail(ErrorCode::io, "cannot open {}: {}", path, errno_text(errno));
  return copy;
}

}  // namespace bitrift
