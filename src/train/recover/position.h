// How far a run is, and all of it that is not in the session. Inside train/ only.
#pragma once

#include <compare>
#include <cstdint>

#include "core/named_enum.h"
#include "record/json/keys.h"

namespace bitrift::train {

/// What a run does next. Ascending between two steps.
enum class Next {
  look,      ///< what comes behind an update: shared state, guards, trace, snapshots, the golden run
  evaluate,  ///< the test set
  step,      ///< forward, backward, update
  finish,    ///< digests and alarms of all ranks
  save,      ///< what the caller wants done with the final state
  leave,     ///< all ranks agree that nobody is needed any more
  over,
};
constexpr EnumNames<7> names_of(Next) {
  return {"part of a run", {"look", "evaluate", "step", "finish", "save", "leave", "over"}};
}

/// Positions of one run are ordered.
struct Position {
  std::int64_t commits =
      -1;  ///< steps that were decided upon, whether or not they updated anything; -1: no state
  Next next = Next::look;
  auto operator<=>(const Position&) const = default;
};
constexpr auto keys_of(std::type_identity<Position>) {
  return std::tuple(record::Key{"commits", &Position::commits}, record::Key{"next", &Position::next});
}

}  // namespace bitrift::train
