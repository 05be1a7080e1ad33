#include "h5/handle.h"

#include <hdf5.h>

#include "h5/silent_scope.h"

namespace bitrift::h5 {
namespace {

void close_id(hid_t id) noexcept {
  switch (H5Iget_type(id)) {
    case H5I_FILE:
      H5Fclose(id);
      break;
    case H5I_GROUP:
      H5Gclose(id);
      break;
    case H5I_DATATYPE:
      H5Tclose(id);
      break;
    case H5I_DATASPACE:
      H5Sclose(id);
      break;
    case H5I_DATASET:
      H5Dclose(id);
      break;
    case H5I_ATTR:
      H5Aclose(id);
      break;
    case H5I_GENPROP_LST:
      H5Pclose(id);
      break;
    default:
      H5Idec_ref(id);
      break;
  }
}

}  // namespace

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    reset();
    id_ = std::exchange(other.id_, -1);
  }
  return *this;
}

void Handle::reset() noexcept {
  if (id_ < 0) return;
  const Scope scope;
  close_id(std::exchange(id_, -1));
}

}  // namespace bitrift::h5
