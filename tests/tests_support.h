// Small helpers that the unit tests share.
#pragma once

#include <string>

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

}  // namespace bitrift::tests
