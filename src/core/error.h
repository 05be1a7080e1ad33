// The one exception type of the libraries and its closed set of codes.
#pragma once

#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace bitrift {

/// What kind of thing went wrong. Closed: a caller may switch over it.
enum class ErrorCode {
  bad_input,    ///< an argument, a spec or a combination of them makes no sense
  not_found,    ///< a file, tensor or key that was named does not exist
  bad_file,     ///< a file is damaged, truncated or of another kind
  unsupported,  ///< well-formed, but it cannot be done faithfully; the text says why
  io,           ///< the operating system refused: full disk, permission, ...
  busy,         ///< another process holds the file or folder
  conflict,     ///< two things disagree that must agree (digest, spec, base checkpoint)
  internal,     ///< a fault in bitrift itself
};

/// Every error a library of bitrift throws on purpose. what() is one line: what, where, what to do.
class Error : public std::runtime_error {
 public:
  /// key: a literal.
  Error(ErrorCode code, const std::string& text, const char* key = "")
      : std::runtime_error(text), code_(code), key_(key) {}
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }
  /// The key of a spec whose value is wrong ("data.mean"), or "": code that knows the spec knows its line.
  [[nodiscard]] const char* key() const noexcept { return key_; }
  /// Process exit code: 3 for an internal error in bitrift, 2 for a usage or input error.
  [[nodiscard]] int exit_code() const noexcept { return code_ == ErrorCode::internal ? 3 : 2; }

 private:
  ErrorCode code_;
  const char* key_;
};

/// Throws Error(code, fmt::vformat(text, arguments), key). Not inline: there are a thousand calls of fail().
[[noreturn]] void throw_error(ErrorCode code, const char* key, fmt::string_view text,
                              fmt::format_args arguments);

/// Throws Error(code, fmt::format(...)).
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  throw_error(code, "", text, fmt::make_format_args(args...));
}

/// Throws Error(code, fmt::format(...), key).
template <typename... Args>
[[noreturn]] void fail_at(ErrorCode code, const char* key, fmt::format_string<Args...> text, Args&&... args) {
  throw_error(code, key, text, fmt::make_format_args(args...));
}

/// A name for the code, as printed in logs ("bad_input").
[[nodiscard]] const char* error_code_name(ErrorCode code) noexcept;

/// The text of an errno value ("No space left on device").
[[nodiscard]] std::string errno_text(int errno_value);

}  // namespace bitrift
