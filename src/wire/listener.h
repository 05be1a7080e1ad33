// The driver's end of the sockets through which a worker's ranks talk.
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
  /// SIGKILL for the process at the other end; the connection to one on another machine is closed.
  void kill_peer() const noexcept;
  /// Whether the process at the other end has ended (false when the kernel cannot tell). Data that it had not
  /// sent yet is lost.
  [[nodiscard]] bool peer_ended() const noexcept;

 private:
  FileDescriptor pidfd_;
  std::optional<pid_t> peer_;
};

/// $BITRIFT_LISTEN: where to listen for ranks on other machines; "" when it is not set.
[[nodiscard]] std::string listen_address();

/// The place where a worker's ranks connect.
class Listener {
 public:
  /// A socket in the abstract namespace (unix(7)): it has a name but no file, so nothing is left behind.
  /// Name: "bitrift-<pid>-<64 random bits>". Throws Error(io).
  Listener();
  /// A TCP socket for ranks on other machines, and the file that tells them about it (wire/meeting_point.h);
  /// it must be where they can read it. `address`: the one to listen at, a number or a name of this machine;
  /// empty: all of them except loopback, if there are others. Throws Error(io | bad_input).
  Listener(const std::filesystem::path& meeting_point, const std::string& address);
  ~Listener();  ///< removes the file
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;

  /// The value that the ranks' --connect needs.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Descriptors to wait on.
  void add_to(std::vector<pollfd>& waiting) const;
  /// The waiting connections; does not wait for any. Connections of other users, and those from the network
  /// without the token, are closed and never seen here.
  [[nodiscard]] std::vector<Connection> accept();

 private:
  /// Accepted from the network, but not proved yet.
  struct Stranger {
    FileDescriptor fd;
    std::chrono::steady_clock::time_point until;
    std::string said = {};
  };
  /// Whether that is known now; closes the connection if it can never be proved.
  bool prove(Stranger& stranger) const;
  void accept_strangers();

  std::string name_;
  FileDescriptor fd_;
  std::string token_;  // "": ranks are on this machine
  std::filesystem::path file_;
  std::vector<Stranger> strangers_;
};

}  // namespace bitrift::campaign
