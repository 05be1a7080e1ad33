#include "train/run/rollback.h"

#include <utility>

#include "core/error.h"
#include "train/state/state_copy.h"

namespace bitrift::train {

Rollback::Rollback(TrainerState& state, bool loses_links)
    : state_(state),
      action_(state.guards.spec().on_alarm),
      every_(action_ == record::OnAlarm::skip ? 1 : state.guards.spec().rollback_every) {
  const bool may_lose = state.team.may_lose() || loses_links;
  if (state.guards.spec().recompute && may_lose) {
    throw mpi::AgreedError(
        ErrorCode::bad_input,
        "the guard recompute does not work in a run whose ranks or links may fail; remove it");
  }
  if (!state.guards.go_back() || !may_lose) return;
  throw mpi::AgreedError(
      ErrorCode::bad_input,
      fmt::format("guards with on_alarm {} do not act in a run whose ranks or links may fail; "
                  "choose on_alarm record or stop",
                  name_of(action_)));
}

void Rollback::keep(const RunProgress& run) {
  if (!state_.guards.go_back()) return;
  const bool due = !last_.any() || run.at.commits % every_ == 0;
  if (!due || last_.run.at == run.at) return;
  if (action_ == record::OnAlarm::rollback) std::swap(last_, before_);
  last_.run = run;
  last_.memory = state_.guards.memory();
  pack_state(state_.session(), last_.bytes);
}

int Rollback::tries(const RunProgress& run) const {
  const auto known = tries_.find(run.at.commits);
  return known == tries_.end() ? 0 : known->second;
}

bool Rollback::acts(const RunProgress& run) const {
  return state_.guards.go_back() && (tries(run) == 0 || (tries(run) == 1 && before_.any()));
}

void Rollback::go_back(RunProgress& run) {
  if (tries_[run.at.commits]++ == 1) last_ = std::exchange(before_, {});
  const std::int64_t back = run.at.commits - last_.run.at.commits;  // steps
  const std::int64_t step = state_.session().progress.step + (run.last.stopped ? 1 : 0);
  RunProgress then = last_.run;
  then.result.seconds = run.result.seconds;
  then.result.guard_actions = std::move(run.result.guard_actions);
  then.result.guard_action_count = run.result.guard_action_count + 1;
  if (std::ssize(then.result.guard_actions) < most_actions)
    then.result.guard_actions.push_back({action_, step, step - back});
  run = std::move(then);
  restore_session(state_.session(), unpacked(last_.bytes));
  state_.guards.remember_again(last_.memory);
  state_.went_back();
}

}  // namespace bitrift::train
