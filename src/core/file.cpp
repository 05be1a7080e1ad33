#include "core/file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/error.h"

namespace bitrift {
namespace {

[[noreturn]] void fail_errno(const char* what, const std::filesystem::path& path, int error) {
  const ErrorCode code = error == ENOENT || error == ENOTDIR ? ErrorCode::not_found : ErrorCode::io;
  fail(code, "cannot {} {}: {}", what, path.string(), errno_text(error));
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  const auto folder = path.parent_path();
  return folder.empty() ? std::filesystem::path(".") : folder;
}

void cut_to(const FileDescriptor& fd, std::uint64_t size, const std::filesystem::path& path) {
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) fail_errno("write", path, errno);
}

/// Whether all processes that can see a folder are on this machine, so that they see each other's locks.
bool is_local(const std::filesystem::path& folder) {
  // The file systems, by their names in statfs(2): ext2 to ext4, XFS, Btrfs, F2FS, ZFS, bcachefs, tmpfs,
  // ramfs, overlayfs.
  constexpr std::array<std::uint32_t, 9> kinds = {0xef53,     0x58465342, 0x9123683e, 0xf2f52010, 0x2fc12fc1,
                                                  0xca451a4e, 0x01021994, 0x858458f6, 0x794c7630};
  struct statfs info {};
  if (::statfs(folder.c_str(), &info) != 0) return false;
  return std::find(kinds.begin(), kinds.end(), static_cast<std::uint32_t>(info.f_type)) != kinds.end();
}

// A lock that belongs to the descriptor, whichever process has it. Locks of flock(2), which HDF5 uses, do not
// conflict with it.
int take_lock(const FileDescriptor& fd, short kind) {
  struct flock range {};
  range.l_type = kind;
  range.l_whence = SEEK_SET;
  return ::fcntl(fd.get(), F_OFD_SETLK, &range);
}

// False when another process took the new file for a leftover and removed it.
bool lock_temporary(const FileDescriptor& fd, const std::filesystem::path& path) {
  if (take_lock(fd, F_WRLCK) == 0) {
    struct stat info {};
    return ::fstat(fd.get(), &info) != 0 || info.st_nlink > 0;
  }
  if (errno != EAGAIN && errno != EACCES) return true;  // there is no lock then
  ::unlink(path.c_str());
  return false;
}

// Removes a temporary file unless its owner is alive.
void remove_leftover(const std::filesystem::path& path) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat opened {};
  if (!fd || ::fstat(fd.get(), &opened) != 0 || !S_ISREG(opened.st_mode)) return;
  if (take_lock(fd, F_RDLCK) != 0) return;
  // Its owner may have renamed it before it was locked here.
  struct stat named {};
  if (::lstat(path.c_str(), &named) != 0) return;
  if (named.st_dev == opened.st_dev && named.st_ino == opened.st_ino) ::unlink(path.c_str());
}

/// Bytes of one file into the same places of another.
class FileCopy {
 public:
  FileCopy(const FileDescriptor& in, const std::filesystem::path& from, const FileDescriptor& out,
           const std::filesystem::path& to)
      : in_(in), from_(from), out_(out), to_(to) {}

  /// Copies the bytes [at, end), or as many as exist. Returns the place at which it stopped.
  std::uint64_t run(std::uint64_t at, std::uint64_t end) {
    constexpr std::uint64_t piece = std::uint64_t{1} << 30;
    for (std::uint64_t moved = 1; at < end && moved > 0; at += moved)
      moved = move(at, std::min(piece, end - at));
    return at;
  }

 private:
  std::uint64_t move(std::uint64_t at, std::uint64_t most) {
    ssize_t moved = -1;
    if (in_kernel_) {
      auto from = static_cast<off_t>(at);
      off_t to = from;
      do {
        moved = ::copy_file_range(in_.get(), &from, out_.get(), &to, most, 0);
      } while (moved < 0 && errno == EINTR);
      if (moved > 0) return static_cast<std::uint64_t>(moved);
      // Not every pair of file systems supports this, and some return 0 although bytes exist; a disk error
      // occurs again below.
      in_kernel_ = false;
      buffer_.resize(std::size_t{1} << 20);
    }
    do {
      moved = ::pread(in_.get(), buffer_.data(), std::min<std::uint64_t>(most, buffer_.size()),
                      static_cast<off_t>(at));
    } while (moved < 0 && errno == EINTR);
    if (moved < 0) fail_errno("read", from_, errno);
    write_at(out_, buffer_.data(), static_cast<std::size_t>(moved), at, to_);
    return static_cast<std::uint64_t>(moved);
  }

  const FileDescriptor& in_;
  const std::filesystem::path& from_;
  const FileDescriptor& out_;
  const std::filesystem::path& to_;
  bool in_kernel_ = true;
  std::vector<char> buffer_;
};

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

FileDescriptor::~FileDescriptor() { close(); }

int FileDescriptor::release() noexcept { return std::exchange(fd_, -1); }

void FileDescriptor::close() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

FileDescriptor open_file(const std::filesystem::path& path, int flags, unsigned mode) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) fail_errno((flags & O_CREAT) != 0 ? "create" : "open", path, errno);
  return FileDescriptor(fd);
}

std::uint64_t size_of(const FileDescriptor& fd, const std::filesystem::path& path) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) fail_errno("look at", path, errno);
  return static_cast<std::uint64_t>(info.st_size);
}

void read_at(const FileDescriptor& fd, void* data, std::size_t size, std::uint64_t offset,
             const std::filesystem::path& path) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = ::pread(fd.get(), at, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("read", path, errno);
    if (got == 0)
      fail(ErrorCode::bad_file, "{} ends before byte {}: the file is truncated", path.string(),
           offset + size);
    at += got;
    size -= static_cast<std::size_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
}

void write_at(const FileDescriptor& fd, const void* data, std::size_t size, std::uint64_t offset,
              const std::filesystem::path& path) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t put = ::pwrite(fd.get(), at, size, static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_errno("write", path, errno);
    at += put;
    size -= static_cast<std::size_t>(put);
    offset += static_cast<std::uint64_t>(put);
  }
}

void sync_file(const FileDescriptor& fd, const std::filesystem::path& path) {
  if (::fsync(fd.get()) != 0) fail_errno("sync", path, errno);
}

void sync_folder_of(const std::filesystem::path& path) {
  const auto folder = folder_of(path);
  const FileDescriptor fd = open_file(folder, O_RDONLY | O_DIRECTORY);
  sync_file(fd, folder);
}

void lock_exclusive(const FileDescriptor& fd, const std::filesystem::path& path) {
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) {
    fail(ErrorCode::busy, "{} is in use by another program: close it there and try again", path.string());
  }
  fail_errno("lock", path, errno);
}

std::string read_text(const std::filesystem::path& path) {
  const FileDescriptor fd = open_file(path, O_RDONLY);
  std::string text;
  std::vector<char> buffer(std::size_t{1} << 16);
  while (true) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno("read", path, errno);
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

void replace_text(const std::filesystem::path& path, std::string_view text) {
  PendingFile pending(path);
  {
    const FileDescriptor fd = open_file(pending.path(), O_WRONLY);
    write_at(fd, text.data(), text.size(), 0, path);
  }
  pending.commit();
}

bool publish_text(const std::filesystem::path& path, std::string_view text) {
  PendingFile pending(path);
  {
    const FileDescriptor fd = open_file(pending.path(), O_WRONLY);
    write_at(fd, text.data(), text.size(), 0, path);
  }
  return pending.publish();
}

void remove_leftovers(const std::filesystem::path& folder, const std::function<bool(std::string_view)>& of) {
  // ".TARGET.tmp-" and the six letters or digits that mkostemp(3) adds.
  constexpr std::string_view mark = ".tmp-";
  constexpr std::size_t drawn = 6;
  if (!is_local(folder)) return;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(folder, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (name.size() <= 1 + mark.size() + drawn || name[0] != '.') continue;
    const std::string_view target(name.data() + 1, name.size() - 1 - mark.size() - drawn);
    if (name.compare(1 + target.size(), mark.size(), mark) != 0 || !of(target)) continue;
    if (std::all_of(name.end() - drawn, name.end(), [](unsigned char c) { return std::isalnum(c) != 0; }))
      remove_leftover(entry->path());
  }
}

PendingFile::PendingFile(std::filesystem::path target) : target_(std::move(target)) {
  std::error_code none;
  const auto there = std::filesystem::status(target_, none);
  // A rename would remove a device and put a file in its place.
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    fail(ErrorCode::bad_input, "{}: is not a regular file and will not be replaced", target_.string());
  }
  const auto folder = folder_of(target_);
  const std::string own = target_.filename().string();
  const std::string start = "." + own + ".tmp-";
  const bool local = is_local(folder);
  remove_leftovers(folder, [&](std::string_view of) { return of == own; });
  do {
    std::string name = (folder / (start + "XXXXXX")).string();
    owned_ = FileDescriptor(::mkostemp(name.data(), O_CLOEXEC));
    if (!owned_) fail_errno("write into the folder of", target_, errno);
    temporary_ = name;
  } while (local && !lock_temporary(owned_, temporary_));
  // mkostemp uses mode 0600; a result file gets the mode that open(2) would have given it.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  if (::fchmod(owned_.get(), 0666 & ~mask) == 0) return;
  const int error = errno;
  ::unlink(temporary_.c_str());
  fail_errno("set the mode of", temporary_, error);
}

PendingFile::~PendingFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void PendingFile::commit() {
  {
    const FileDescriptor fd = open_file(temporary_, O_RDONLY);
    sync_file(fd, target_);
  }
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail_errno("replace", target_, errno);
  committed_ = true;
  sync_folder_of(target_);
}

bool PendingFile::publish() {
  const FileDescriptor fd = open_file(temporary_, O_RDONLY);
  sync_file(fd, target_);
  bool won = ::link(temporary_.c_str(), target_.c_str()) == 0;
  if (!won &&
      (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK)) {  // no hard links
    won = ::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(), RENAME_NOREPLACE) == 0;
    committed_ = won;
  }
  if (!won && errno == EEXIST) {
    // Over a network, the answer to a successful link can be lost, and the repetition finds the link.
    struct stat info {};
    won = ::fstat(fd.get(), &info) == 0 && info.st_nlink > 1;
    if (!won) return false;
  }
  if (!won) fail_errno("publish", target_, errno);
  sync_folder_of(target_);
  return true;
}

namespace {

std::filesystem::path temporary_files() {
  std::error_code error;
  auto folder = std::filesystem::temp_directory_path(error);
  if (error) fail(ErrorCode::io, "no folder for temporary files (TMPDIR): {}", error.message());
  return folder;
}

// Nothing when another process holds the folder's lock, or has taken it for one that was left and removed it.
FileDescriptor lock_folder(const std::filesystem::path& path) {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  const bool mine = fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 && ::fstat(fd.get(), &info) == 0 &&
                    info.st_nlink > 0 && info.st_uid == ::geteuid();
  return mine ? std::move(fd) : FileDescriptor();
}

void remove_abandoned(const std::string& start, const std::filesystem::path& parent,
                      const std::function<void(const std::filesystem::path&)>& first) {
  constexpr std::size_t drawn = 6;  // letters or digits that mkdtemp(3) adds
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(parent, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (name.size() != start.size() + drawn || !name.starts_with(start)) continue;
    const bool fits =
        std::all_of(name.end() - drawn, name.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
    const FileDescriptor lock = fits ? lock_folder(entry->path()) : FileDescriptor();
    if (!lock) continue;
    if (first) first(entry->path());
    std::error_code none;
    std::filesystem::remove_all(entry->path(), none);
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder(std::string_view name) { make(std::string(name) + '.', temporary_files()); }

TemporaryFolder::TemporaryFolder(std::string_view name, const std::filesystem::path& parent) {
  make(std::string(name) + '-', parent);
}

void TemporaryFolder::make(const std::string& start, const std::filesystem::path& parent) {
  const bool local = is_local(parent);
  if (local) remove_abandoned(start, parent, {});
  constexpr int tries = 100;
  for (int left = tries; left > 0; --left) {
    std::string pattern = (parent / (start + "XXXXXX")).string();
    if (::mkdtemp(pattern.data()) == nullptr) fail_errno("make a folder in", parent, errno);
    path_ = pattern;
    if (!local) return;
    lock_ = lock_folder(path_);
    if (lock_) return;
  }
  fail_errno("lock", path_, errno);
}

void remove_abandoned_folders(std::string_view name,
                              const std::function<void(const std::filesystem::path& folder)>& first) {
  const auto parent = temporary_files();
  if (is_local(parent)) remove_abandoned(std::string(name) + '.', parent, first);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void copy_folder(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::create_directory(to, error);
  if (error) fail(ErrorCode::io, "cannot make {}: {}", to.string(), error.message());
  for (const auto& entry : std::filesystem::directory_iterator(from, error)) {
    const auto target = to / entry.path().filename();
    std::error_code none;
    if (entry.is_directory(none)) {
      if (entry.is_symlink(none)) {  // which may lead to a folder that it is in
        fail(ErrorCode::unsupported,
             "{}: is a symbolic link to a folder; put a copy of that folder in its place",
             entry.path().string());
      }
      copy_folder(entry.path(), target);
    } else if (entry.is_regular_file(none)) {
      copy_file_bytes(entry.path(), target);
    } else {
      fail(ErrorCode::unsupported, "{}: is neither a file nor a folder, and cannot be copied",
           entry.path().string());
    }
  }
  if (error) fail(ErrorCode::io, "cannot read {}: {}", from.string(), error.message());
}

void copy_file_bytes(const std::filesystem::path& from, const std::filesystem::path& to) {
  const FileDescriptor in = open_file(from, O_RDONLY);
  // Without O_TRUNC: when ext4 closes a file that was truncated to nothing, it writes the file and waits for
  // the disk.
  const FileDescriptor out = open_file(to, O_WRONLY | O_CREAT);
  if (size_of(out, to) > 0) cut_to(out, 0, to);
  if (::ioctl(out.get(), FICLONE, in.get()) == 0) return;
  FileCopy copy(in, from, out, to);
  std::uint64_t size = size_of(in, from);
  if (size == 0) {  // some pseudo file systems report 0 for files that have bytes
    copy.run(0, std::numeric_limits<off_t>::max());
    return;
  }
  for (std::uint64_t at = 0; at < size;) {
    const off_t data = ::lseek(in.get(), static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) break;  // a hole up to the end
    const off_t hole = data < 0 ? -1 : ::lseek(in.get(), data, SEEK_HOLE);
    const std::uint64_t end = hole < 0 ? size : std::min(size, static_cast<std::uint64_t>(hole));
    at = copy.run(data < 0 ? at : static_cast<std::uint64_t>(data), end);
    if (at < end) size = at;  // it became shorter in the meantime
  }
  cut_to(out, size, to);
}

}  // namespace bitrift
