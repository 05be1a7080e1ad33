// Ends its program by SIGKILL at one of the calls that alter files: at the BITRIFT_KILL_AT-th of them,
// counted from 1. With BITRIFT_KILL_HALF a call that writes first writes the front half of its bytes. So a
// test reaches every state that a program can leave behind, one after the other. It is a library for
// LD_PRELOAD. A test can also be linked with it (kill_at_call.h) and have calls fail.
#include "kill_at_call.h"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

namespace bitrift::tests {

Interruption& interruption() {
  static Interruption one = [] {
    const char* const text = std::getenv("BITRIFT_KILL_AT");
    return Interruption{.at = text == nullptr ? 0 : std::strtol(text, nullptr, 10),
                        .half = std::getenv("BITRIFT_KILL_HALF") != nullptr};
  }();
  return one;
}

}  // namespace bitrift::tests

namespace {

using bitrift::tests::interruption;

/// Counts a call; true when it is the last one. Programs that write files from several threads are not meant.
bool is_last() {
  long& left = interruption().at;
  return left > 0 && --left == 0;
}

/// Says at which call the program ends, for the test to know what it has met; or fails, where it is to fail.
int end_at(std::string_view call) {
  if (interruption().error != 0) {
    errno = interruption().error;
    return -1;
  }
  (void)::syscall(SYS_write, 2, call.data(), call.size());
  (void)::syscall(SYS_kill, ::getpid(), SIGKILL);
  ::_exit(99);
}

bool writes_half() { return interruption().half; }

}  // namespace

// Straight to the kernel, not to the next library: nothing has to be looked up before the program has
// started.
extern "C" {

ssize_t pwrite(int fd, const void* data, std::size_t size, off_t offset) {
  if (is_last()) {
    if (writes_half()) (void)::syscall(SYS_pwrite64, fd, data, size / 2, offset);
    return end_at("pwrite");
  }
  return ::syscall(SYS_pwrite64, fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void* data, std::size_t size, off_t offset) {
  return pwrite(fd, data, size, offset);
}

ssize_t pwritev(int fd, const iovec* pieces, int count, off_t offset) {
  if (is_last()) {
    if (writes_half()) (void)::syscall(SYS_pwritev, fd, pieces, count / 2, offset, 0);
    return end_at("pwritev");
  }
  return ::syscall(SYS_pwritev, fd, pieces, count, offset, 0);
}

ssize_t pwritev64(int fd, const iovec* pieces, int count, off_t offset) {
  return pwritev(fd, pieces, count, offset);
}

ssize_t write(int fd, const void* data, std::size_t size) {
  if (fd > 2 && is_last()) {
    if (writes_half()) (void)::syscall(SYS_write, fd, data, size / 2);
    return end_at("write");
  }
  return ::syscall(SYS_write, fd, data, size);
}

ssize_t copy_file_range(int from, off_t* from_at, int to, off_t* to_at, std::size_t size, unsigned flags) {
  if (is_last()) {
    if (writes_half()) (void)::syscall(SYS_copy_file_range, from, from_at, to, to_at, size_t{1000}, flags);
    return end_at("copy_file_range");
  }
  return ::syscall(SYS_copy_file_range, from, from_at, to, to_at, size, flags);
}

int fsync(int fd) {
  if (is_last()) return end_at("fsync");
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

int fdatasync(int fd) {
  if (is_last()) return end_at("fdatasync");
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

int fchmod(int fd, mode_t mode) {
  if (is_last()) return end_at("fchmod");
  return static_cast<int>(::syscall(SYS_fchmod, fd, mode));
}

int ftruncate(int fd, off_t size) {
  if (is_last()) return end_at("ftruncate");
  return static_cast<int>(::syscall(SYS_ftruncate, fd, size));
}

int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

int rename(const char* from, const char* to) {
  if (is_last()) return end_at("rename");
  return static_cast<int>(::syscall(SYS_rename, from, to));
}

int link(const char* from, const char* to) {
  if (is_last()) return end_at("link");
  return static_cast<int>(::syscall(SYS_link, from, to));
}

int unlink(const char* path) {
  if (is_last()) return end_at("unlink");
  return static_cast<int>(::syscall(SYS_unlink, path));
}
}
