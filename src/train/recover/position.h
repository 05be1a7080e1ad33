// The terms of a run, and its position.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "core/named_enum.h"
#include "record/json/keys.h"

namespace bitrift::train {

/// The next part of a run. Ascending between two steps.
enum class Next {
  look,      ///< the work after an update: shared state, guards, trace, snapshots, the golden run
  evaluate,  ///< the test set
  step,      ///< forward, backward, update
  finish,    ///< digests and alarms of all ranks
  save,      ///< what the caller wants done with the final state
  leave,     ///< all ranks agree that no rank is needed any more
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

/// The terms of a run, the same on all ranks.
struct Terms {
  std::optional<std::int64_t> steps = {};  ///< optimizer steps to take; else
  std::int64_t epochs = 0;                 ///< epochs to complete; the one in progress counts
  /// Data-order seed of the golden run that this one is, or is compared with. A file may hold another seed,
  /// in some replicas only: then no state equals that golden run's.
  std::uint64_t order = 0;
  /// End as soon as all ranks have the state that the remembered run of the same order had after as many
  /// steps, and report its rest: the same result except returned_step. The state then stays where it was. Not
  /// with `steps`.
  bool early_end = false;
  /// The file of the checkpoints on the way, where the run chooses it; "": RunOptions::checkpoint does.
  std::string saves_to = {};
};
constexpr auto keys_of(std::type_identity<Terms>) {
  using record::Key;
  return std::tuple(Key{"steps", &Terms::steps}, Key{"epochs", &Terms::epochs}, Key{"order", &Terms::order},
                    Key{"early_end", &Terms::early_end}, Key{"saves_to", &Terms::saves_to});
}

}  // namespace bitrift::train
