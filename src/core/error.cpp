#include "core/error.h"

#include <system_error>

namespace bitrift {

const char* error_code_name(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::bad_input:
      return "bad_input";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::bad_file:
      return "bad_file";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::io:
      return "io";
    case ErrorCode::busy:
      return "busy";
    case ErrorCode::conflict:
      return "conflict";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

void throw_error(ErrorCode code, const char* key, fmt::string_view text, fmt::format_args arguments) {
  throw Error(code, fmt::vformat(text, arguments), key);
}

std::string errno_text(int errno_value) { return std::generic_category().message(errno_value); }

}  // namespace bitrift
