#include "wire/line_channel.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include <poll.h>
#include <sys/socket.h>

#include "core/error.h"

namespace bitrift {
namespace {

constexpr std::size_t longest_line = std::size_t{64} << 20U;

bool would_wait() noexcept { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

LineChannel::LineChannel(FileDescriptor socket, std::string peer)
    : socket_(std::move(socket)), peer_(std::move(peer)) {}

void LineChannel::send(const std::string& line, int patience_ms) noexcept {
  const std::string text = line + '\n';
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count =
        ::send(socket_.get(), text.data() + done, text.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      done += static_cast<std::size_t>(count);
    } else if (would_wait()) {
      pollfd room{socket_.get(), POLLOUT, 0};
      if (::poll(&room, 1, patience_ms) == 0) return;
    } else if (errno != EINTR) {
      return;
    }
  }
}

void LineChannel::receive() {
  std::array<char, 65536> piece;
  while (open_) {
    const ssize_t count = ::recv(socket_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_wait()) return;
    open_ = count > 0;
    if (open_) received_.append(piece.data(), static_cast<std::size_t>(count));
    if (received_.size() > longest_line) {
      open_ = false;
      received_.clear();
      fail(ErrorCode::bad_file, "{} sent a line of more than {} bytes", peer_, longest_line);
    }
  }
}

std::optional<std::string> LineChannel::take_line() {
  const std::size_t end = received_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 1);
  return line;
}

std::optional<std::string> LineChannel::wait_for_line() {
  while (true) {
    std::optional<std::string> line = take_line();
    if (line || !open_) return line;
    pollfd waiting{socket_.get(), POLLIN, 0};
    ::poll(&waiting, 1, -1);
    receive();
  }
}

}  // namespace bitrift
