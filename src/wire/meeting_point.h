// How a process reaches the driver that started it, on this machine or from another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/file.h"

namespace bitrift {

/// The address at which a driver listens on the network. A process that connects proves by `token` that it
/// may: it sends the token and a line feed before anything else.
struct MeetingPoint {
  std::vector<std::string> addresses;  ///< numeric, of this machine; tried in order
  std::uint16_t port = 0;
  std::string token;  ///< token_characters hexadecimal digits
};

inline constexpr std::size_t token_characters = 32;

/// Writes a new file that only its owner may read. Throws Error(io).
void write_meeting_point(const std::filesystem::path& file, const MeetingPoint& point);
/// Throws Error(not_found | io | bad_file).
[[nodiscard]] MeetingPoint read_meeting_point(const std::filesystem::path& file);

/// A connected stream socket to a driver. `where`: a name in Linux's abstract namespace (unix(7)), or the
/// absolute path of a meeting point's file. Throws Error(bad_input) when the name is empty or too long,
/// Error(io) when no process listens there (each address is given five seconds), and as read_meeting_point()
/// does.
[[nodiscard]] FileDescriptor connect_to_driver(const std::string& where);

/// Makes a TCP connection notice within about 30 s that the machine at its other end is gone. Throws
/// Error(io).
void keep_alive(const FileDescriptor& socket);

}  // namespace bitrift
