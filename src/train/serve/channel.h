// A worker's side of the connection to its driver, and what it still says when it dies.
#pragma once

#include <optional>
#include <string>
#include <thread>

#include "core/file.h"

namespace bitrift::train {

/// Lines over a socket.
class Channel {
 public:
  /// See connect_to_driver() (wire/meeting_point.h), also for what it throws.
  explicit Channel(const std::string& where);
  /// Throws Error(io).
  void send(const std::string& line);
  /// The next line; nullopt when the driver is gone. Blocks in read(2), so an idle rank uses no processor.
  [[nodiscard]] std::optional<std::string> receive();
  [[nodiscard]] int descriptor() const noexcept { return socket_.get(); }

 private:
  FileDescriptor socket_;
  std::string buffer_;
};

/// A thread that ends the process at once (_exit) when the driver hangs up. The main thread may be stuck in
/// MPI, waiting for a rank that is gone, and then neither a value nor an exception could reach it.
class HangUpWatch {
 public:
  explicit HangUpWatch(int descriptor);
  ~HangUpWatch();  ///< stops watching: a driver may leave after it said goodbye
  HangUpWatch(HangUpWatch&&) = delete;
  HangUpWatch& operator=(HangUpWatch&&) = delete;

 private:
  FileDescriptor stop_in_, stop_out_;
  std::thread thread_;
};

/// From now on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT first write a record::Broken line to the
/// descriptor, then end the process by their default action. Call after MPI_Init, which installs handlers of
/// its own. No core files are written.
void install_last_words(int descriptor, int rank);

}  // namespace bitrift::train
