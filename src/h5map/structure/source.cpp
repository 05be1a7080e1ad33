#include "h5map/structure/source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>

#include "core/error.h"

namespace bitrift::h5map {
namespace {

// Structures are close together: one block that is read ahead answers most of the next requests.
constexpr std::uint64_t block_bytes = 4096;

}  // namespace

struct Source::State {
  std::string name;
  std::uint64_t first = 0;
  std::uint64_t size = 0;
  FileDescriptor fd;                 // none for bytes in memory
  std::vector<std::uint8_t> memory;  // those bytes, or the block that was read last
  std::uint64_t memory_at = 0;       // the place of the first of them in the file
  Watch watch;
};

Source::Source(const std::filesystem::path& path) : state_(std::make_unique<State>()) {
  state_->name = path.string();
  state_->fd = open_file(path, O_RDONLY | O_NONBLOCK);
  struct stat status {};
  if (::fstat(state_->fd.get(), &status) != 0) {
    fail(ErrorCode::io, "{}: {}", state_->name, errno_text(errno));
  }
  if (S_ISDIR(status.st_mode)) {
    fail(ErrorCode::bad_file, "{}: is a directory, not an HDF5 file", state_->name);
  }
  if (!S_ISREG(status.st_mode)) fail(ErrorCode::bad_file, "{}: is not a regular file", state_->name);
  state_->size = static_cast<std::uint64_t>(status.st_size);
}

Source::Source(const std::filesystem::path& path, std::uint64_t first, std::uint64_t end) : Source(path) {
  if (first > end || end > state_->size) {
    fail(ErrorCode::bad_file, "{}: bytes {} to {} lie outside of the file", state_->name, first, end);
  }
  state_->first = first;
  state_->size = end;
}

Source::Source(std::vector<std::uint8_t> bytes, std::string name) : state_(std::make_unique<State>()) {
  state_->name = std::move(name);
  state_->size = bytes.size();
  state_->memory = std::move(bytes);
}

Source::Source(FileDescriptor fd, std::string name) : state_(std::make_unique<State>()) {
  state_->size = size_of(fd, name);
  state_->name = std::move(name);
  state_->fd = std::move(fd);
}

Source::~Source() = default;
Source::Source(Source&&) noexcept = default;
Source& Source::operator=(Source&&) noexcept = default;

std::uint64_t Source::size() const noexcept { return state_->size; }
std::uint64_t Source::first() const noexcept { return state_->first; }
const std::string& Source::name() const noexcept { return state_->name; }

void Source::check(std::uint64_t offset, std::uint64_t count, std::string_view what) const {
  if (offset <= state_->size && count <= state_->size - offset) return;
  fail(ErrorCode::bad_file, "{}: {} at byte {} reaches beyond the file's {} bytes", state_->name, what,
       offset, state_->size);
}

void Source::read(std::uint64_t offset, std::span<std::uint8_t> out, std::string_view what) const {
  check(offset, out.size(), what);
  note(offset, out.size(), what);
  copy(offset, out);
}

void Source::copy(std::uint64_t offset, std::span<std::uint8_t> out) const {
  if (out.empty()) return;
  State& state = *state_;
  const bool held = offset >= state.memory_at && offset - state.memory_at <= state.memory.size() &&
                    out.size() <= state.memory.size() - (offset - state.memory_at);
  if (!held && out.size() >= block_bytes) {
    read_at(state.fd, out.data(), out.size(), offset, state.name);
    return;
  }
  if (!held) {
    state.memory.resize(std::min(block_bytes, state.size - offset));
    state.memory_at = offset;
    read_at(state.fd, state.memory.data(), state.memory.size(), offset, state.name);
  }
  std::memcpy(out.data(), state.memory.data() + (offset - state.memory_at), out.size());
}

std::vector<std::uint8_t> Source::read(std::uint64_t offset, std::uint64_t count,
                                       std::string_view what) const {
  check(offset, count, what);
  note(offset, count, what);  // checked before the memory is allocated
  std::vector<std::uint8_t> bytes(count);
  copy(offset, bytes);
  return bytes;
}

void Source::watch(Watch watch) const { state_->watch = std::move(watch); }

void Source::note(std::uint64_t offset, std::uint64_t count, std::string_view what) const {
  if (!state_->watch || offset >= state_->size) return;
  const std::uint64_t held = std::min(count, state_->size - offset);
  if (held != 0) state_->watch(offset, held, what);
}

void Source::spend(std::uint64_t bytes) const {
  if (state_->watch) state_->watch(0, bytes, {});
}

std::uint64_t Cursor::address(unsigned bytes) {
  const std::uint64_t value = number(bytes);
  const std::uint64_t all = bytes >= 8 ? undefined : (std::uint64_t{1} << (8 * bytes)) - 1;
  return value == all ? undefined : value;
}

}  // namespace bitrift::h5map
