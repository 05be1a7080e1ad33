#include "h5/library.h"

#include <algorithm>

#include <hdf5.h>

namespace bitrift::h5 {
namespace {

static_assert(sizeof(hid_t) == sizeof(std::int64_t), "HDF5 1.10 or later is needed");

herr_t keep_innermost(unsigned, const H5E_error2_t* entry, void* text) {
  auto& kept = *static_cast<std::string*>(text);
  if (kept.empty() && entry->desc != nullptr) kept = entry->desc;
  return 0;
}

}  // namespace

std::string take_error_text() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &text);
  H5Eclear2(H5E_DEFAULT);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text.empty() ? "unknown HDF5 error" : text;
}

Handle own(std::int64_t id, const std::string& where, ErrorCode code) {
  check(id, where, code);
  return Handle(id);
}

std::int64_t check(std::int64_t result, const std::string& where, ErrorCode code) {
  if (result < 0) fail(code, "{}: {}", where, take_error_text());
  return result;
}

std::string library_version() {
  const Scope scope;
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  check(H5get_libversion(&major, &minor, &release), "HDF5", ErrorCode::internal);
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace bitrift::h5
