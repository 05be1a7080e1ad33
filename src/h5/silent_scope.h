// One thread at a time inside HDF5, and silent.
#pragma once

namespace bitrift::h5 {

/// While one exists, only this thread is inside HDF5 (a serial build of it is not thread-safe) and HDF5
/// prints no errors; afterwards the former error handler is restored. May be nested.
class Scope {
 public:
  Scope() noexcept;
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  void* function_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace bitrift::h5
