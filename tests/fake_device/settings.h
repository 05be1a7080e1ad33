// How the fake device behaves, by the environment of the process (fake_device.cpp). What is not set has its
// default.
#pragma once

#include <string>

namespace fake_device {

inline constexpr int most_devices = 8;

/// BITRIFT_FAKE_DEVICES, from 1 to most_devices (default: 1).
[[nodiscard]] int devices();
/// BITRIFT_FAKE_WORK is "later" (default: "now").
[[nodiscard]] bool works_later();
/// BITRIFT_FAKE_LOG: a file, or "".
[[nodiscard]] std::string log_file();
/// BITRIFT_FAKE_FORGET: "copy:N" or "synchronization:N", or "".
[[nodiscard]] std::string forgotten();

}  // namespace fake_device
