// The lines that a driver and a worker's ranks send each other.
#pragma once

#include <optional>
#include <string>

#include "core/file.h"

namespace bitrift {

/// One end of a connected stream socket, blocking or not. One thread at a time. Its descriptor stays valid as
/// long as the object, whatever the peer does.
class LineChannel {
 public:
  /// `peer` names the other end in messages: "a worker".
  LineChannel(FileDescriptor socket, std::string peer);

  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }
  /// False after the end of the stream or an error. Earlier lines can still be taken.
  [[nodiscard]] bool open() const noexcept { return open_; }

  /// Sends one line, which must not contain a line feed. If the peer reads nothing for `patience_ms` (-1: no
  /// limit), the rest of the line is dropped. A receive call shows that the peer is gone.
  void send(const std::string& line, int patience_ms = -1) noexcept;
  /// Reads what has arrived, without waiting. Throws Error(bad_file), and closes, when more than 64 MiB wait
  /// to be taken.
  void receive();
  /// Takes the next whole line that was received, without its end.
  [[nodiscard]] std::optional<std::string> take_line();
  /// Waits for the next line; nullopt when the peer is gone. Throws as receive() does.
  [[nodiscard]] std::optional<std::string> wait_for_line();

 private:
  FileDescriptor socket_;
  std::string peer_;
  std::string received_;
  bool open_ = true;
};

}  // namespace bitrift
