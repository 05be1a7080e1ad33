// Work on untrusted bytes, done by a separate program with limits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/file.h"

namespace bitrift {

/// The resources that a confined process may use for one call.
struct ConfinedLimits {
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;  ///< bytes of address space, in addition to those at
                                                        ///< its start
  unsigned seconds = 20;                 ///< seconds of processor time; the deadline by the clock is three
                                         ///< times as long
  std::uint64_t answer_bytes = 1 << 20;  ///< longest answer
};

/// A program that answers requests by serve_confined(): when it crashes, hangs or takes too much memory, the
/// caller gets an Error and continues. It is started by the first call and serves all later ones; after it
/// died the next call starts another. It keeps no file of the caller open, prints nothing and dies with this
/// object and with the caller. It is started fresh and not forked, so it shares no memory, threads or
/// libraries with the caller. One thread at a time; several objects work at once.
class Confined {
 public:
  explicit Confined(std::filesystem::path program);
  ~Confined();
  Confined(Confined&&) = delete;
  Confined& operator=(Confined&&) = delete;

  /// Returns the program's answer. An Error that it throws arrives here with its code and text. `where`
  /// begins the messages of all other errors: Error(bad_file) when it dies, runs over its time or answers too
  /// long, Error(unsupported) when it cannot be started.
  std::vector<std::uint8_t> call(std::span<const std::uint8_t> request, const std::string& where,
                                 const ConfinedLimits& limits);

 private:
  void start(const std::string& where);
  void stop() noexcept;
  [[noreturn]] void fail_dead(const std::string& where, unsigned seconds);

  std::filesystem::path program_;
  pid_t pid_ = -1;
  FileDescriptor requests_, answers_;
};

/// The other side: main() of such a program calls this at once. Ends when the caller has gone.
using ConfinedWork = std::function<std::vector<std::uint8_t>(std::span<const std::uint8_t>)>;
[[noreturn]] void serve_confined(const ConfinedWork& work) noexcept;

}  // namespace bitrift
