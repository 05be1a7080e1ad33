#include "wire/meeting_point.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/error.h"

namespace bitrift {
namespace {

constexpr const char* heading = "bitrift meeting point 1";
constexpr int connect_ms = 5000;

FileDescriptor connect_locally(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof address.sun_path) {
    fail(ErrorCode::bad_input, "--connect {}: expected a socket name of 1 to {} characters", name,
         sizeof address.sun_path - 1);
  }
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // a leading NUL: abstract namespace
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    fail(ErrorCode::io,
         "--connect {}: no driver of this machine listens there: {} (for ranks on several machines set "
         "worker.connect to network)",
         name, errno_text(errno));
  }
  return fd;
}

/// 0, or the errno value that says why it failed.
int connect_within(const FileDescriptor& fd, const addrinfo& to, int milliseconds) {
  if (::connect(fd.get(), to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waiting{fd.get(), POLLOUT, 0};
  int ready = 0;
  do {
    ready = ::poll(&waiting, 1, milliseconds);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  if (ready < 0 || ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

/// A blocking, connected socket; nullopt with `why` if that is impossible.
FileDescriptor connect_to_address(const std::string& address, std::uint16_t port, std::string& why) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) {
    why = ::gai_strerror(code);
    return {};
  }
  FileDescriptor fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int error = fd ? connect_within(fd, *found, connect_ms) : errno;
  ::freeaddrinfo(found);
  if (error != 0) {
    why = errno_text(error);
    return {};
  }
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
  return fd;
}

FileDescriptor connect_over_network(const std::filesystem::path& file) {
  const MeetingPoint point = read_meeting_point(file);
  std::string reasons;
  for (const std::string& address : point.addresses) {
    std::string why;
    FileDescriptor fd = connect_to_address(address, point.port, why);
    if (!fd) {
      reasons += fmt::format("{}{} port {}: {}", reasons.empty() ? "" : "; ", address, point.port, why);
      continue;
    }
    keep_alive(fd);
    const std::string proof = point.token + "\n";
    if (::send(fd.get(), proof.data(), proof.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(proof.size())) {
      fail(ErrorCode::io, "{}: the driver at {} closed the connection", file.string(), address);
    }
    return fd;
  }
  fail(ErrorCode::io, "{}: no driver can be reached ({}); BITRIFT_LISTEN names the driver's address",
       file.string(), reasons);
}

}  // namespace

void write_meeting_point(const std::filesystem::path& file, const MeetingPoint& point) {
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  const FileDescriptor fd = open_file(file, O_WRONLY | O_CREAT | O_EXCL, 0600);
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}\n", heading, fmt::join(point.addresses, " "), point.port, point.token);
  write_at(fd, text.data(), text.size(), 0, file);
  sync_file(fd, file);
}

MeetingPoint read_meeting_point(const std::filesystem::path& file) {
  std::istringstream lines(read_text(file));
  std::string first, addresses, port;
  MeetingPoint point;
  std::getline(lines, first) && std::getline(lines, addresses) && std::getline(lines, port) &&
      std::getline(lines, point.token);
  std::istringstream words(addresses);
  for (std::string word; words >> word;) point.addresses.push_back(word);
  const auto [rest, error] = std::from_chars(port.data(), port.data() + port.size(), point.port);
  if (first != heading || point.addresses.empty() || error != std::errc{} ||
      rest != port.data() + port.size() || point.token.size() != token_characters) {
    fail(ErrorCode::bad_file, "{}: does not say where a driver listens", file.string());
  }
  return point;
}

FileDescriptor connect_to_driver(const std::string& where) {
  return where.starts_with('/') ? connect_over_network(where) : connect_locally(where);
}

void keep_alive(const FileDescriptor& socket) {
  const auto set = [&](int level, int option, int value) {
    if (::setsockopt(socket.get(), level, option, &value, sizeof value) != 0) {
      fail(ErrorCode::io, "cannot set up a network connection: {}", errno_text(errno));
    }
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30000);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}

}  // namespace bitrift
