// How tests and the ranks of their jobs ask a resident program for another run of it.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

namespace bitrift::tests {

/// What a run is given: its standard streams, and these words, each followed by a NUL: the folder, the number
/// of arguments, the arguments, and the environment.
///
/// On the wire: the length of the words as 4 bytes, which carry the descriptors of the streams; the words.
/// The answers are 4 bytes each: the number of the process, and when it has ended, its status as waitpid(2)
/// gives it.
constexpr int stream_count = 3;

/// The address of an abstract socket, and its length.
inline std::pair<sockaddr_un, socklen_t> abstract_address(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

}  // namespace bitrift::tests
