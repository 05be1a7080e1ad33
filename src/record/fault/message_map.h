// The contents of the messages of gradients on a mesh.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/fault/link_fault.h"
#include "record/json/json.h"

namespace bitrift::record {

/// The messages of each step of a run on a mesh: every bucket of gradients by every send of the schedule.
/// They depend on the model, the precision, the mesh and its schedule.
struct MessageMap {
  struct Send {
    std::int64_t chunk = 0;
    MessageKind kind = MessageKind::add;
    bool operator==(const Send&) const = default;
  };
  std::int64_t steps_per_epoch = 0;
  std::string dtype;                  ///< type of the numbers as they travel: "float32"
  std::int64_t chunks = 1;            ///< number of chunks of each bucket
  std::vector<std::int64_t> buckets;  ///< elements of each
  std::vector<Send> sends;            ///< by their position in the schedule
  /// The number of elements that a send of this bucket carries. If the division leaves a remainder, the first
  /// chunks have one more.
  [[nodiscard]] std::int64_t elements(std::size_t bucket, const Send& send) const;
  [[nodiscard]] int bits() const;  ///< of a number
  bool operator==(const MessageMap&) const = default;
};

/// {"steps_per_epoch", "dtype", "chunks", "buckets": [elements], "sends": [[chunk, kind]]}
[[nodiscard]] Json to_json(const MessageMap& map);
/// Throws Error(bad_file) for anything else.
[[nodiscard]] MessageMap message_map_from_json(const Json& value);

/// Throws Error(bad_input) that says what exists when the bucket, send, element or bit does not.
void check_exists(const LinkFault& fault, const MessageMap& map);

}  // namespace bitrift::record
