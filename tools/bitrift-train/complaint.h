// How bitrift-train says that it failed.
#pragma once

#include <exception>
#include <string>

namespace bitrift::cli {

/// Prints "bitrift-train: error: TEXT" on one line of stderr: the first line of the text.
void complain(const std::string& text);

struct Complaint {
  std::string text;
  int exit_code;
};

/// What to say of an error that ends the program, in one line. Too little memory, of the machine or of a
/// card, is bad input: another batch or model fits.
[[nodiscard]] Complaint complaint_about(const std::exception& error);

}  // namespace bitrift::cli
