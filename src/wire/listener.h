// The driver's end of the sockets that a worker's ranks talk through.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/types.h>

#include "core/file.h"
#include "wire/line_channel.h"

namespace bitrift::campaign {

/// One rank's connection. On this machine the kernel vouches for the peer's pid (SO_PEERCRED), and a pidfd
/// pins it, so that a signal never reaches another process that got the number later. A rank on another
/// machine has no pid here: it ends itself when its driver hangs up.
class Connection : public LineChannel {
 public:
  explicit Connection(FileDescriptor fd, std::optional<pid_t> peer = std::nullopt);

  [[nodiscard]] std::optional<pid_t> peer() const noexcept { return peer_; }
  /// SIGKILL for the process at the other end; one on another machine is hung up on.
  void kill_peer() const noexcept;
  /// Whether the process at the other end has ended (false when the kernel cannot tell). What it had still to
  /// say is lost.
  [[nodiscard]] bool peer_ended() const noexcept;

 private:
  FileDescriptor pidfd_;
  std::optional<pid_t> peer_;
};

/// $BITRIFT_LISTEN: where to listen for ranks on other machines; "" when it is not set.
[[nodiscard]] std::string listen_address();

/// Where a worker's ranks connect.
class Listener {
 public:
  /// A socket in the abstract namespace (unix(7)): it has a name but no file, so nothing is left behind.
  /// Name: "bitrift-<pid>-<64 random bits>". Throws Error(io).
  Listener();
  /// A TCP socket for ranks on other machines, and the file that tells them of it (wire/meeting_point.h); it
  /// must lie where they can read it. `address`: the one to listen at, a number or a name of this machine;
  /// empty: all of them but loopback, when there are others. Throws Error(io | bad_input).
  Listener(const std::filesystem::path& meeting_point, const std::string& address);
  ~Listener();  ///< removes the file
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;

  /// What the ranks' --connect wants.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Descriptors to wait on.
  void add_to(std::vector<pollfd>& waiting) const;
  /// Connections that wait, without waiting for any. Those of other users, and from the network those without
  /// the token, are closed and never seen here.
  [[nodiscard]] std::vector<Connection> accept();

 private:
  /// Accepted from the network, but has not proved itself.
  struct Stranger {
    FileDescriptor fd;
    std::chrono::steady_clock::time_point until;
    std::string said = {};
  };
  /// Whether it is known now; closes it when it never will be.
  bool prove(Stranger& stranger) const;
  void accept_strangers();

  std::string name_;
  FileDescriptor fd_;
  std::string token_;  // "": ranks are on this machine
  std::filesystem::path file_;
  std::vector<Stranger> strangers_;
};

}  // namespace bitrift::campaign
