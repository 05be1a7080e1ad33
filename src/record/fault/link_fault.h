// A link that flips a bit of a message between two chips of a mesh.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/named_enum.h"
#include "record/json/keys.h"

namespace bitrift::record {

/// The text under which faults of links are listed where others have a Plane, which is a part of a file.
inline constexpr const char* wire_plane = "wire";

/// What the receiver does with a message (docs/mesh.md, "What a schedule means").
enum class MessageKind { add, copy };
constexpr EnumNames<2> names_of(MessageKind) { return {"kind of message", {"add", "copy"}}; }

/// One bit of one message of gradients arrives flipped. The sender's own numbers stay right; whatever the
/// receiver makes of the message follows from the flipped one.
struct LinkFault {
  std::int64_t step = 1;     ///< of this run, 1-based
  std::int64_t bucket = 0;   ///< of gradients: 0 holds the last layer's
  std::int64_t send = 0;     ///< position in the planned schedule, which gives link, chunk and kind
  std::int64_t element = 0;  ///< index in the chunk that travels
  int bit = 0;               ///< of the number as it travels; 0 is the least significant
  bool operator==(const LinkFault&) const = default;
};

constexpr auto keys_of(std::type_identity<LinkFault>) {
  return std::tuple(Key{"step", &LinkFault::step}, Key{"bucket", &LinkFault::bucket},
                    Key{"send", &LinkFault::send}, Key{"element", &LinkFault::element},
                    Key{"bit", &LinkFault::bit});
}
/// "SEND@STEP:BUCKET.ELEMENT.BIT": "12@5:0.3.30". Throws Error(bad_input) that says what was expected.
[[nodiscard]] LinkFault link_fault_from_text(std::string_view text);
/// The inverse.
[[nodiscard]] std::string to_text(const LinkFault& fault);

/// Where a chip is in its mesh.
struct ChipPlace {
  int row = 0, column = 0;
  bool operator==(const ChipPlace&) const = default;
};
constexpr auto keys_of(std::type_identity<ChipPlace>) {
  return std::tuple(Key{"row", &ChipPlace::row}, Key{"column", &ChipPlace::column});
}

/// The effect of a link fault, as the receiver saw it.
struct AlteredMessage {
  LinkFault fault;
  ChipPlace from, to;
  std::int64_t chunk = 0;
  MessageKind kind = MessageKind::add;
  std::string dtype;  ///< of the number as it travels: "float32"
  std::uint64_t old_pattern = 0, new_pattern = 0;
  bool operator==(const AlteredMessage&) const = default;
};

/// {"link": {...}, "from": {"row", "column"}, "to": {...}, "chunk", "kind", "dtype", "old", "new"}; patterns
/// as in an AppliedFault.
void to_json(Json& value, const AlteredMessage& altered);
void from_json(const Json& value, AlteredMessage& altered);

}  // namespace bitrift::record
