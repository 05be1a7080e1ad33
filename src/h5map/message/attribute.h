// The attributes of an object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "h5map/message/dataspace.h"
#include "h5map/message/datatype.h"
#include "h5map/message/shared_message.h"
#include "h5map/structure/object_header.h"

namespace bitrift::h5map {

/// One attribute, as far as it could be interpreted.
struct Attribute {
  std::string name;
  DatatypePtr type;  ///< null when `problem` is not empty
  Dataspace space;
  std::uint64_t offset = 0;  ///< of its value in the file, user block included
  std::uint64_t bytes = 0;   ///< of its value
  std::optional<Seal> seal;  ///< the checksum that covers the value
  bool shared = false;       ///< it is in the file's heap of shared messages: other objects may have it too
  std::string problem;       ///< what is damaged or unknown; "" when sound
};

/// All attributes of an object, sorted bytewise by name: from messages of version 1 to 3 (HDF5 file format
/// 3.0, section IV.A.2.m) and from heaps. Damage in one attribute becomes its `problem`; damage in the
/// structures that hold them throws Error(bad_file).
[[nodiscard]] std::vector<Attribute> read_attributes(const Source& source, const Frame& frame,
                                                     SharedMessages& shared, const ObjectHeader& header);

/// The texts of a string attribute of fixed or variable length: one for a scalar, those of a list for one
/// dimension; none for any other attribute. Throws Error(bad_file) when its bytes are not where it says, or
/// when the texts together are longer than the file.
[[nodiscard]] std::vector<std::string> attribute_texts(const Source& source, const Frame& frame,
                                                       const Attribute& attribute);

/// The text of a scalar string attribute; absent for any other attribute. Throws as attribute_texts().
[[nodiscard]] std::optional<std::string> attribute_text(const Source& source, const Frame& frame,
                                                        const Attribute& attribute);

}  // namespace bitrift::h5map
