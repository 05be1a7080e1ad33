#include "train/run/recompute.h"

#include <bit>

#include "train/state/state_copy.h"

namespace bitrift::train {

StepResult Recompute::step(std::span<const std::int64_t> batch, bool leave) {
  if (!state_.guards.spec().recompute) return state_.step(batch, leave);
  Session& session = state_.session();
  const std::int64_t number = session.progress.step + 1;
  const Guards::Memory memory = state_.guards.memory();
  pack_state(session, before_);
  const StepResult made = state_.step(batch, leave);
  pack_state(session, first_);

  const Guards seen = state_.guards;
  restore_session(session, unpacked(before_));
  state_.guards.remember_again(memory);
  const StepResult again = state_.step(batch, leave);
  pack_state(session, second_);
  const bool equal = first_ == second_ && std::bit_cast<std::uint64_t>(made.batch.loss) ==
                                              std::bit_cast<std::uint64_t>(again.batch.loss);
  state_.guards = seen;
  state_.guards.see_recomputed(equal, number);
  if (!equal) restore_session(session, unpacked(first_));
  return made;
}

}  // namespace bitrift::train
