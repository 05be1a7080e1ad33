// Small helpers that the unit tests share.
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "core/error.h"

namespace bitrift::tests {

/// The text of the bitrift::Error that `action` throws; "" when it throws none.
template <typename Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Waits for an event: true as soon as `happened()` is, false after half a minute.
template <typename Condition>
[[nodiscard]] bool wait_until(Condition&& happened) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!happened()) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace bitrift::tests
