#include "h5/silent_scope.h"

#include <mutex>
#include <new>

#include <hdf5.h>
#include <pthread.h>

namespace bitrift::h5 {
namespace {

std::recursive_mutex& mutex() {
  // Never destroyed: handles of static life may close after the destructors of this file ran. A child that is
  // forked while another thread is inside HDF5 gets its own mutex: nobody would unlock ours.
  static std::recursive_mutex* const instance = [] {
    static auto* made = new std::recursive_mutex;
    ::pthread_atfork([] { made->lock(); }, [] { made->unlock(); }, [] { new (made) std::recursive_mutex; });
    return made;
  }();
  return *instance;
}

}  // namespace

Scope::Scope() noexcept {
  mutex().lock();
  // This comes before the first other call: at exit HDF5 would try, and fail, to close what a damaged file
  // left open ("infinite loop closing library"). Nothing needs that: every file is read-only or in memory,
  // and bitrift closes it.
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

}  // namespace bitrift::h5
