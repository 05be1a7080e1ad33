#include "h5map/message/dataspace.h"

#include <algorithm>

#include "core/error.h"

namespace bitrift::h5map {
namespace {

constexpr unsigned most_space_dimensions = 32;
constexpr unsigned kHasMaximum = 1, kHasPermutation = 2;

void check_count(const std::vector<std::uint64_t>& shape, const std::string& name) {
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) return;
  std::uint64_t count = 1;
  for (const std::uint64_t dimension : shape) {
    if (count > undefined / dimension) {
      fail(ErrorCode::bad_file, "{}: number of elements overflows 64 bits", name);
    }
    count *= dimension;
  }
}

}  // namespace

std::uint64_t Dataspace::element_count() const noexcept {
  std::uint64_t count = 1;
  for (const std::uint64_t dimension : shape) count *= dimension;
  return count;
}

Dataspace parse_dataspace(Cursor& cursor, const Frame& frame, const std::string& name) {
  Dataspace space;
  const unsigned version = cursor.u8();
  if (version != 1 && version != 2) {
    fail(ErrorCode::unsupported, "{}: dataspace version {} is unknown", name, version);
  }
  const unsigned rank = cursor.u8();
  const unsigned flags = cursor.u8();
  if (rank > most_space_dimensions) fail(ErrorCode::bad_file, "{}: dataspace has {} dimensions", name, rank);
  const unsigned kind = cursor.u8();
  if (version == 1) cursor.skip(4);
  if (version == 2 && kind > 2) fail(ErrorCode::bad_file, "{}: dataspace kind {} is unknown", name, kind);
  if (version == 2 && kind == 2) {
    space.kind = Dataspace::Kind::null;
    space.shape = space.max_shape = {0};
    return space;
  }
  space.kind = rank == 0 ? Dataspace::Kind::scalar : Dataspace::Kind::simple;
  for (unsigned i = 0; i < rank; ++i) space.shape.push_back(cursor.number(frame.length_bytes));
  space.max_shape = space.shape;
  if ((flags & kHasMaximum) != 0) {
    for (unsigned i = 0; i < rank; ++i) {
      space.max_shape[i] = cursor.address(frame.length_bytes);
      if (space.max_shape[i] < space.shape[i]) {
        fail(ErrorCode::bad_file, "{}: dimension {} is larger than its maximum", name, i);
      }
    }
  }
  if (version == 1 && (flags & kHasPermutation) != 0) cursor.skip(std::uint64_t{rank} * frame.length_bytes);
  check_count(space.shape, name);
  return space;
}

}  // namespace bitrift::h5map
