// An owned HDF5 identifier.
#pragma once

#include <cstdint>
#include <utility>

namespace bitrift::h5 {

/// Wraps an hid_t (int64_t in HDF5 >= 1.10) and closes it by kind. Move-only; a moved-from handle is invalid.
/// The destructor never throws. hdf5.h stays out of headers: the kind is found by H5Iget_type at close.
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::int64_t id) noexcept : id_(id) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Handle& operator=(Handle&& other) noexcept;
  ~Handle() { reset(); }
  [[nodiscard]] std::int64_t get() const noexcept { return id_; }
  [[nodiscard]] explicit operator bool() const noexcept { return id_ >= 0; }
  void reset() noexcept;
  /// Releases the identifier; the caller closes it.
  [[nodiscard]] std::int64_t release() noexcept { return std::exchange(id_, -1); }

 private:
  std::int64_t id_ = -1;
};

}  // namespace bitrift::h5
