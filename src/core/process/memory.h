// Checks whether there is memory for the sizes that a file claims.
#pragma once

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>

namespace bitrift::ckpt {

/// Throws Error(io), "<where>: needs N bytes of memory ...", when the machine has fewer bytes to give. Checks
/// only large numbers.
void check_memory(std::uint64_t bytes, const std::string& where);

/// Throws that error.
[[noreturn]] void fail_memory(std::uint64_t bytes, const std::string& where);

/// Calls check_memory(), then `work`; if memory runs out in it, the error is the same.
template <typename Work>
auto with_memory(std::uint64_t bytes, const std::string& where, const Work& work) {
  check_memory(bytes, where);
  try {
    return work();
  } catch (const std::bad_alloc&) {
    fail_memory(bytes, where);
  } catch (const std::length_error&) {
    fail_memory(bytes, where);
  }
}

}  // namespace bitrift::ckpt
