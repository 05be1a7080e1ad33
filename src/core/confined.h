// Work on bytes that nobody vouches for, done in a child process with limits.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <sys/types.h>

#include "core/file.h"

namespace bitrift {

/// What a confined child may use.
struct ConfinedLimits {
  std::uint64_t memory_bytes = std::uint64_t{1} << 30;  ///< of address space, beyond what the parent had
  unsigned seconds = 20;                 ///< of processor time for one call; three times as many by the clock
  std::uint64_t answer_bytes = 1 << 20;  ///< longest answer
};

/// A function that runs in a forked child: when it crashes, hangs or takes too much memory, the caller gets
/// an Error and goes on. The child is started by the first call and serves all later ones; after it died the
/// next call starts another. It keeps no file of the parent open, prints nothing and dies with this object.
/// One thread at a time; several objects work at once.
class Confined {
 public:
  using Work = std::function<std::vector<std::uint8_t>(std::span<const std::uint8_t>)>;

  /// `where` begins the messages of errors that the child cannot report itself. `work` must not take locks
  /// that another thread of the parent may hold during a fork.
  Confined(Work work, std::string where, ConfinedLimits limits);
  ~Confined();
  Confined(Confined&&) = delete;
  Confined& operator=(Confined&&) = delete;

  /// What `work` gives for the request. An Error that it throws arrives here with its code and text. Throws
  /// Error(bad_file, "<where>: ...") when the child dies, runs over its time or answers too long.
  std::vector<std::uint8_t> call(std::span<const std::uint8_t> request);

 private:
  void start();
  void stop() noexcept;
  [[noreturn]] void serve(int requests, int answers) noexcept;
  [[noreturn]] void fail_dead();

  Work work_;
  std::string where_;
  ConfinedLimits limits_;
  pid_t pid_ = -1;
  FileDescriptor requests_, answers_;
};

}  // namespace bitrift
