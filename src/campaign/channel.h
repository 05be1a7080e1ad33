// The driver's end of the sockets that a worker's ranks talk through.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/file.h"

namespace bitrift::campaign {

/// One rank's connection. The kernel vouches for the peer's pid (SO_PEERCRED); a pidfd pins it, so that a
/// signal never reaches another process that got the number later.
class Connection {
 public:
  Connection(FileDescriptor fd, pid_t peer);

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] pid_t peer() const noexcept { return peer_; }
  [[nodiscard]] bool open() const noexcept { return static_cast<bool>(fd_); }
  /// Takes what has arrived, without waiting: whole lines, without their ends. Closes at the end of the
  /// stream or an error; look at open() afterwards. Throws Error(bad_file) when a line exceeds 64 MiB.
  [[nodiscard]] std::vector<std::string> receive();
  /// Sends one line; a peer that is gone or does not read is left to receive() and to deadlines.
  void send(const std::string& line) noexcept;
  /// SIGKILL for the process at the other end.
  void kill_peer() const noexcept;
  /// Whether the process at the other end has ended (false when the kernel cannot tell).
  [[nodiscard]] bool peer_ended() const noexcept;

 private:
  FileDescriptor fd_;
  FileDescriptor pidfd_;
  pid_t peer_;
  std::string pending_;
};

/// A listening socket in the abstract namespace (unix(7)): it has a name but no file, so nothing is left
/// behind.
class Listener {
 public:
  /// Name: "bitrift-<pid>-<64 random bits>". Throws Error(io).
  Listener();
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// Connections that wait, without waiting for any; those of other users are closed.
  [[nodiscard]] std::vector<Connection> accept();

 private:
  std::string name_;
  FileDescriptor fd_;
};

}  // namespace bitrift::campaign
