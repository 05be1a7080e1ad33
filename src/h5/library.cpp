#include "h5/library.h"

#include <algorithm>
#include <mutex>
#include <new>

#include <hdf5.h>
#include <pthread.h>

namespace bitrift::h5 {
namespace {

static_assert(sizeof(hid_t) == sizeof(std::int64_t), "HDF5 1.10 or later is needed");

std::recursive_mutex& mutex() {
  // Never destroyed: handles of static life may close after the destructors of this file ran.
  // A child that is forked while another thread is inside HDF5 gets a mutex of its own: nobody would free
  // ours.
  static std::recursive_mutex* const instance = [] {
    static auto* made = new std::recursive_mutex;
    ::pthread_atfork([] { made->lock(); }, [] { made->unlock(); }, [] { new (made) std::recursive_mutex; });
    return made;
  }();
  return *instance;
}

herr_t keep_innermost(unsigned, const H5E_error2_t* entry, void* text) {
  auto& kept = *static_cast<std::string*>(text);
  if (kept.empty() && entry->desc != nullptr) kept = entry->desc;
  return 0;
}

}  // namespace

Scope::Scope() noexcept {
  mutex().lock();
  // Before the first other call: on its way out HDF5 would try, and fail, to close what a damaged file left
  // open
  // ("infinite loop closing library"). Nothing needs it: every file is read-only or in memory, and closed by
  // us.
  static const herr_t no_exit_handler = H5dont_atexit();
  static_cast<void>(no_exit_handler);
  H5E_auto2_t function = nullptr;
  H5Eget_auto2(H5E_DEFAULT, &function, &data_);
  function_ = reinterpret_cast<void*>(function);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Scope::~Scope() {
  H5Eset_auto2(H5E_DEFAULT, reinterpret_cast<H5E_auto2_t>(function_), data_);
  mutex().unlock();
}

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
