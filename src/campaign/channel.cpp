#include "campaign/channel.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/error.h"
#include "core/log.h"

namespace bitrift::campaign {
namespace {

constexpr std::size_t longest_line = std::size_t{64} << 20U;

std::string fresh_name() {
  std::uint64_t token = 0;
  if (getrandom(&token, sizeof token, 0) != static_cast<ssize_t>(sizeof token)) {
    fail(ErrorCode::io, "cannot get random bytes for a socket name: {}", errno_text(errno));
  }
  return fmt::format("bitrift-{}-{:016x}", getpid(), token);
}

}  // namespace

Connection::Connection(FileDescriptor fd, pid_t peer)
    : fd_(std::move(fd)), pidfd_(static_cast<int>(syscall(SYS_pidfd_open, peer, 0))), peer_(peer) {}

std::vector<std::string> Connection::receive() {
  std::array<char, 65536> piece;
  while (fd_) {
    const ssize_t count = recv(fd_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (count > 0) {
      pending_.append(piece.data(), static_cast<std::size_t>(count));
      if (pending_.size() > longest_line) {
        fail(ErrorCode::bad_file, "a worker sent a line of more than {} bytes", longest_line);
      }
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    fd_.close();
  }
  std::vector<std::string> lines;
  std::size_t start = 0;
  for (std::size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n', start)) {
    lines.push_back(pending_.substr(start, end - start));
    start = end + 1;
  }
  pending_.erase(0, start);
  return lines;
}

void Connection::send(const std::string& line) noexcept {
  const std::string text = line + '\n';
  std::size_t done = 0;
  while (fd_ && done < text.size()) {
    const ssize_t count =
        ::send(fd_.get(), text.data() + done, text.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    done += static_cast<std::size_t>(count);
  }
}

void Connection::kill_peer() const noexcept {
  if (pidfd_) {
    syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  } else if (fd_) {
    kill(peer_, SIGKILL);  // kernels before 5.3: an open connection means that the number is still its own
  }
}

bool Connection::peer_ended() const noexcept {
  pollfd waiting{pidfd_.get(), POLLIN, 0};
  return pidfd_ && poll(&waiting, 1, 0) > 0;
}

Listener::Listener() : name_(fresh_name()) {
  fd_ = FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name_.data(), name_.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
  if (!fd_ || bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(fd_.get(), SOMAXCONN) != 0) {
    fail(ErrorCode::io, "cannot listen for workers on a local socket: {}", errno_text(errno));
  }
}

std::vector<Connection> Listener::accept() {
  std::vector<Connection> connections;
  while (true) {
    FileDescriptor fd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd && errno == EINTR) continue;
    if (!fd) return connections;
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid()) {
      spdlog::warn("refused a connection of user {} to a worker's socket", peer.uid);
      continue;
    }
    connections.emplace_back(std::move(fd), peer.pid);
  }
}

}  // namespace bitrift::campaign
