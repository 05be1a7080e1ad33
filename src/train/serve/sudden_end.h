// How a rank ends when its driver hangs up or a signal arrives.
#pragma once

#include <thread>

#include "core/file.h"

namespace bitrift::train {

/// A thread that ends the process at once (_exit) when the driver hangs up. The main thread may be stuck in
/// MPI, waiting for a rank that is gone, where neither a value nor an exception could reach it.
class HangUpWatch {
 public:
  explicit HangUpWatch(int descriptor);
  ~HangUpWatch();  ///< stops watching: a driver may leave after its goodbye
  HangUpWatch(HangUpWatch&&) = delete;
  HangUpWatch& operator=(HangUpWatch&&) = delete;

 private:
  FileDescriptor stop_in_, stop_out_;
  std::thread thread_;
};

/// From now on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT first write a record::Broken line to the
/// descriptor, then end the process by their default action. Call after MPI_Init, which installs its own
/// handlers. No core files are written.
void install_last_words(int descriptor, int rank);

}  // namespace bitrift::train
