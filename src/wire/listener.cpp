#include "wire/listener.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/error.h"
#include "core/log.h"
#include "wire/meeting_point.h"

namespace bitrift::campaign {
namespace {

// The time in which a rank must prove itself after it connected.
constexpr std::chrono::seconds proof_time{10};
constexpr std::size_t most_strangers = 256;

template <std::size_t Bytes>
std::string random_hex() {
  std::array<unsigned char, Bytes> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    fail(ErrorCode::io, "cannot get random bytes for a socket: {}", errno_text(errno));
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

struct Resolved {
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list{nullptr, &freeaddrinfo};
};

Resolved resolve(const std::string& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (address.empty()) hints.ai_family = AF_INET;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(address.empty() ? nullptr : address.c_str(), "0", &hints, &found);
  if (code != 0) {
    fail(ErrorCode::bad_input, "BITRIFT_LISTEN={}: is not an address of this machine: {}", address,
         gai_strerror(code));
  }
  Resolved resolved;
  resolved.list.reset(found);
  return resolved;
}

std::string numeric(const sockaddr& address, socklen_t length) {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(&address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text.data();
}

/// IPv4 addresses under which other machines may reach this one; its loopback address when there is none.
std::vector<std::string> own_addresses() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) fail(ErrorCode::io, "cannot list network addresses: {}", errno_text(errno));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  std::vector<std::string> found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    found.push_back(numeric(*one->ifa_addr, sizeof(sockaddr_in)));
  }
  if (found.empty()) found.emplace_back("127.0.0.1");
  return found;
}

std::uint16_t port_of(const FileDescriptor& fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    fail(ErrorCode::io, "cannot listen for workers on the network: {}", errno_text(errno));
  }
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

}  // namespace

Connection::Connection(FileDescriptor fd, std::optional<pid_t> peer)
    : LineChannel(std::move(fd), "a worker"), peer_(peer) {
  if (peer_) pidfd_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, *peer_, 0)));
}

void Connection::kill_peer() const noexcept {
  if (!peer_) {
    if (open()) ::shutdown(descriptor(), SHUT_WR);
  } else if (pidfd_) {
    syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  } else if (open()) {
    kill(*peer_, SIGKILL);  // kernels before 5.3: an open connection means that the number is still its own
  }
}

bool Connection::peer_ended() const noexcept {
  if (peer_) {
    pollfd waiting{pidfd_.get(), POLLIN, 0};
    return pidfd_ && poll(&waiting, 1, 0) > 0;
  }
  std::array<char, 4096> unread;
  while (open()) {
    const ssize_t count = recv(descriptor(), unread.data(), unread.size(), MSG_DONTWAIT);
    if (count > 0 || (count < 0 && errno == EINTR)) continue;
    return count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }
  return true;
}

std::string listen_address() {
  const char* const set = std::getenv("BITRIFT_LISTEN");
  return set == nullptr ? "" : set;
}

Listener::Listener() : name_(fmt::format("bitrift-{}-{}", getpid(), random_hex<8>())) {
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

Listener::Listener(const std::filesystem::path& meeting_point, const std::string& address)
    : name_(std::filesystem::absolute(meeting_point).string()),
      token_(random_hex<token_characters / 2>()),
      file_(name_) {
  const Resolved at = resolve(address);
  fd_ = FileDescriptor(socket(at.list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_ || bind(fd_.get(), at.list->ai_addr, at.list->ai_addrlen) != 0 ||
      listen(fd_.get(), SOMAXCONN) != 0) {
    fail(ErrorCode::io, "cannot listen for workers on the network{}{}: {}", address.empty() ? "" : " at ",
         address, errno_text(errno));
  }
  const auto addresses = address.empty()
                             ? own_addresses()
                             : std::vector<std::string>{numeric(*at.list->ai_addr, at.list->ai_addrlen)};
  write_meeting_point(file_, {addresses, port_of(fd_), token_});
}

Listener::Listener(Listener&& other) noexcept
    : name_(std::move(other.name_)),
      fd_(std::move(other.fd_)),
      token_(std::move(other.token_)),
      file_(std::exchange(other.file_, {})),
      strangers_(std::move(other.strangers_)) {}

Listener::~Listener() {
  std::error_code ignored;
  if (!file_.empty()) std::filesystem::remove(file_, ignored);
}

void Listener::add_to(std::vector<pollfd>& waiting) const {
  waiting.push_back({fd_.get(), POLLIN, 0});
  for (const Stranger& one : strangers_) waiting.push_back({one.fd.get(), POLLIN, 0});
}

bool Listener::prove(Stranger& stranger) const {
  const std::string expected = token_ + "\n";
  std::array<char, token_characters + 1> piece{};
  while (stranger.said.size() < expected.size()) {
    // Never reads beyond the token: the bytes after it belong to the connection.
    const ssize_t count =
        recv(stranger.fd.get(), piece.data(), expected.size() - stranger.said.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (std::chrono::steady_clock::now() > stranger.until) stranger.fd.close();
      return false;
    }
    if (count <= 0) {
      stranger.fd.close();
      return false;
    }
    stranger.said.append(piece.data(), static_cast<std::size_t>(count));
  }
  if (stranger.said == expected) return true;
  spdlog::warn("refused a connection from the network that did not know the worker's token");
  stranger.fd.close();
  return false;
}

void Listener::accept_strangers() {
  while (strangers_.size() < most_strangers) {
    FileDescriptor fd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd && errno == EINTR) continue;
    if (!fd) return;
    strangers_.push_back({std::move(fd), std::chrono::steady_clock::now() + proof_time});
  }
}

std::vector<Connection> Listener::accept() {
  std::vector<Connection> connections;
  if (!token_.empty()) {
    accept_strangers();
    for (Stranger& one : strangers_) {
      if (!prove(one)) continue;
      keep_alive(one.fd);
      connections.emplace_back(std::move(one.fd));
    }
    std::erase_if(strangers_, [](const Stranger& one) { return !one.fd; });
    return connections;
  }
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
