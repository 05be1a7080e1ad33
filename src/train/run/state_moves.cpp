#include "train/run/state_moves.h"

#include <cstring>

#include "ckpt/reader.h"
#include "core/error.h"
#include "train/state/load_checkpoint.h"

namespace bitrift::train {

using record::StateSource;

StateCopy shared_state(Session& session) {
  StateCopy all = copy_state(session), shared;
  for (auto& [path, bytes] : all) {
    if (path.starts_with("progress/") || path.starts_with("rng/")) shared.emplace(path, std::move(bytes));
  }
  return shared;
}

StateMoves::StateMoves(TrainerState& state, Snapshots& snapshots, const RecoveryPlan& plan, int stages)
    : state_(state), snapshots_(snapshots), plan_(plan), stages_(stages), me_(state.team.everyone().rank()) {
  if (plan.state == StateSource::file || plan.givers.empty()) return;
  for (std::size_t rank = 0; rank < plan.workers.size(); ++rank) {
    const int taker = plan.workers[rank];
    if (plan.givers[rank] != me_ || taker == me_) continue;
    std::string text;
    if (plan.rolls_back) {
      text = kept(static_cast<int>(rank));
    } else {
      pack_state(state_.session(), text);
    }
    outgoing_.emplace_back(taker, std::move(text));
  }
}

// The kept state for a rank of the new group.
const std::string& StateMoves::kept(int rank) const {
  const Snapshot* const found =
      snapshots_.find(plan_.target, plan_.map.stage_on(rank), stages_, plan_.map.replicas_on(rank).front());
  if (found == nullptr) fail(ErrorCode::internal, "a snapshot that was reported is not kept");
  return found->state;
}

void StateMoves::run(const Ledger& ledger) {
  for (const auto& [taker, text] : outgoing_) send_text(state_.team.everyone(), text, taker);
  StateCopy whole;
  const bool recut = plan_.rolls_back && plan_.state == StateSource::buddy && plan_.givers.empty();
  for (int stage = 0; recut && stage < stages_; ++stage) whole.merge(stage_from_all(stage));
  if (!state_.team.working()) return;
  const int rank = state_.team.active().rank();
  if (plan_.state == StateSource::file) {
    load_file(*ledger.file);
    forget();
  } else if (recut) {
    restore_session(state_.session(), whole);
    forget();
  } else if (plan_.givers[static_cast<std::size_t>(rank)] != me_) {
    receive(ledger, rank);
    forget();
  } else if (plan_.rolls_back) {
    restore_session(state_.session(), unpacked(kept(rank)));
    forget();
  } else {
    write_shared(ledger.shared);
  }
}

void StateMoves::receive(const Ledger& ledger, int rank) {
  std::string text = receive_text(state_.team.everyone(), plan_.givers[static_cast<std::size_t>(rank)]);
  bytes_ += text.size();
  restore_session(state_.session(), unpacked(text));
  if (!plan_.rolls_back) return write_shared(ledger.shared);
  const ReplicaMap& map = plan_.map;
  snapshots_.keep({{plan_.target, map.stage_on(rank), map.stages(), map.replicas_on(rank).front()},
                   to_text(ledger),
                   std::move(text)});
}

// The state that is left out of the recovery on purpose.
void StateMoves::forget() {
  if (!state_.recovery.forget.empty()) state_.forget(state_.recovery.forget);
}

StateCopy StateMoves::stage_from_all(int stage) {
  const int donor = plan_.donors[static_cast<std::size_t>(stage)];
  std::string text;
  if (me_ == donor) text = snapshots_.find(plan_.target, stage, stages_, 0)->state;
  state_.team.everyone().broadcast(text, donor);
  bytes_ += me_ == donor ? 0 : text.size();
  return unpacked(text);
}

void StateMoves::load_file(const std::filesystem::path& path) {
  const ckpt::Reader reader(path);
  const Layout& layout = state_.layout();
  (void)load_session(reader, state_.session(),
                     {.replica = layout.replica(), .replicas = layout.replica_count()});
  for (const StateTensor& tensor : state_.session().tensors()) bytes_ += tensor.meta.bytes();
}

void StateMoves::write_shared(const StateCopy& shared) {
  for (StateTensor& tensor : state_.session().tensors()) {
    const auto found = shared.find(tensor.meta.path);
    if (found == shared.end()) continue;
    tensor.write([&](void* into) { std::memcpy(into, found->second.data(), found->second.size()); });
  }
}

}  // namespace bitrift::train
