// A confined program that does what the first byte of a request asks for.
#include <csignal>
#include <stdexcept>

#include <unistd.h>

#include "core/error.h"
#include "core/process/confined.h"

namespace {

using bitrift::ErrorCode;
using bitrift::fail;
using Bytes = std::vector<std::uint8_t>;

Bytes work(std::span<const std::uint8_t> request) {
  switch (request.front()) {
    case 'c':
      ::raise(SIGSEGV);
      break;
    case 'x':
      ::_exit(7);
    case 'e':
      fail(ErrorCode::unsupported, "f.h5: cannot");
    case 's':
      throw std::runtime_error("standard");
    case 'l': {
      volatile std::uint64_t n = 0;
      for (;;) n = n + 1;
    }
    case 'w':
      ::pause();
      break;
    case 'm': {
      Bytes all(std::size_t{3} << 30);
      return {all[all.size() / 2]};
    }
    case 'b':
      return Bytes(10'000'000);
    case 'p': {
      const pid_t pid = ::getpid();
      return {reinterpret_cast<const std::uint8_t*>(&pid), reinterpret_cast<const std::uint8_t*>(&pid + 1)};
    }
    default:
      break;
  }
  return {request.rbegin(), request.rend()};
}

}  // namespace

int main() { bitrift::serve_confined(work); }
