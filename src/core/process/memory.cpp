#include "core/process/memory.h"

#include <fstream>
#include <limits>

#include "core/error.h"

namespace bitrift::ckpt {
namespace {

// Below this size, checking costs more than it tells.
constexpr std::uint64_t large_bytes = std::uint64_t{256} << 20U;

/// The memory that Linux could give without swapping (proc(5), MemAvailable); all of it where Linux does not
/// say.
std::uint64_t available_bytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("MemAvailable:")) continue;
    return std::stoull(line.substr(line.find(':') + 1)) * 1024;
  }
  return std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

void check_memory(std::uint64_t bytes, const std::string& where) {
  if (bytes < large_bytes) return;
  const std::uint64_t available = available_bytes();
  if (bytes <= available) return;
  fail(ErrorCode::io, "{}: needs {} bytes of memory, and this machine has {} to give", where, bytes,
       available);
}

void fail_memory(std::uint64_t bytes, const std::string& where) {
  fail(ErrorCode::io, "{}: needs {} bytes of memory, which it does not get", where, bytes);
}

}  // namespace bitrift::ckpt
