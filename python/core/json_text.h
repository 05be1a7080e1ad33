// JSON as the text in which it reaches Python.
#pragma once

#include <string>

#include "record/json/json.h"

namespace bitrift::python {

/// Names in a file need not be UTF-8; Python's strings must be, so what is not UTF-8 is replaced.
[[nodiscard]] inline std::string text_of(const record::Json& value) {
  return value.dump(-1, ' ', false, record::Json::error_handler_t::replace);
}

}  // namespace bitrift::python
