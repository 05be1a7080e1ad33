#include "complaint.h"

#include <cstddef>
#include <new>
#include <string_view>

#include <fmt/format.h>

#include "core/error.h"

namespace bitrift::cli {
namespace {

// LibTorch appends a stack trace in further lines.
std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

// What follows a place in LibTorch's source.
std::string size_wanted(const std::string& line) {
  for (const char* const start : {"you tried to allocate", "Tried to allocate"}) {
    if (const std::size_t at = line.find(start); at != std::string::npos) return line.substr(at);
  }
  return line;
}

// LibTorch's allocator for the CPU throws its general error, with this text.
bool lacks_memory(const std::exception& error) {
  const std::string_view text = error.what();
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         text.find("can't allocate memory") != std::string_view::npos ||
         text.find("CUDA out of memory") != std::string_view::npos;
}

}  // namespace

void complain(const std::string& text) { fmt::print(stderr, "bitrift-train: error: {}\n", first_line(text)); }

Complaint complaint_about(const std::exception& error) {
  if (const auto* const known = dynamic_cast<const Error*>(&error))
    return {first_line(known->what()), known->exit_code()};
  if (lacks_memory(error)) {
    return {fmt::format("not enough memory ({}); use more micro-batches, a smaller batch or model, or a "
                        "machine with more memory",
                        size_wanted(first_line(error.what()))),
            2};
  }
  return {first_line(error.what()), 3};
}

}  // namespace bitrift::cli
