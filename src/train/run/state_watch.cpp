#include "train/run/state_watch.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "train/state/checkpoint_names.h"

namespace bitrift::train {

namespace {

// A trial of this many groups takes twice as many runs, which a deadline of 20 golden runs still allows.
constexpr std::size_t most_groups = 8;

// Bytes of this rank's tensors, whether or not the optimizer has created its state yet.
std::uint64_t state_bytes(Session& session, const record::OptimizerSpec& optimizer, bool with_optimizer) {
  std::uint64_t bytes = 0;
  for (const StateTensor& tensor : session.tensors(false)) {
    if (tensor.meta.path.starts_with("model/")) bytes += tensor.meta.bytes();
  }
  if (!with_optimizer) return bytes;
  const auto& parameters = session.optimizer().parameters();
  for (const auto& [name, scalar] : optimizer_slots(optimizer)) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (session.optimizer().holds(i)) bytes += scalar ? sizeof(float) : parameters[i].value.nbytes();
    }
  }
  return bytes;
}

std::string dumped(const std::vector<record::StepDrift>& drifts) { return record::Json(drifts).dump(); }

}  // namespace

StateWatch::StateWatch(TrainerState& state, const std::optional<ChosenStates>& chosen)
    : state_(state), chosen_(chosen) {
  if (chosen_ && chosen_->keep) state_.golden_states.clear(chosen_->optimizer);
}

bool StateWatch::wants(std::int64_t step) const {
  return chosen_ && std::binary_search(chosen_->steps.begin(), chosen_->steps.end(), step);
}

void StateWatch::after(std::int64_t steps) {
  if (!wants(steps)) return;
  if (chosen_->keep) {
    state_.golden_states.keep(steps, state_.session());
  } else {
    found_.push_back(state_.golden_states.compare(steps, state_.session()));
  }
}

void StateWatch::went_back(std::int64_t steps) {
  std::erase_if(found_, [steps](const record::StepDrift& drift) { return drift.step > steps; });
}

void StateWatch::same_after(std::int64_t steps) {
  if (!chosen_) return;
  for (const std::int64_t step : chosen_->steps) {
    if (step > steps) found_.push_back({step, {}});
  }
}

std::optional<std::vector<record::StepDrift>> StateWatch::gather() {
  if (!chosen_ || chosen_->keep) return std::nullopt;
  const Layout& layout = state_.layout();
  const std::vector<std::string> parts = layout.world.gather(dumped(found_), 0);
  if (layout.world.rank() != 0) return std::nullopt;
  std::vector<std::vector<record::StepDrift>> replicas(static_cast<std::size_t>(layout.replica_count()));
  // A sharded state belongs to each replica.
  const bool sharded = state_.session().shard().sharded();
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const std::size_t mine = rank / static_cast<std::size_t>(layout.stages());
    const record::Json part = record::Json::parse(parts[rank]);
    for (std::size_t i = 0; i < part.size(); ++i) {
      const auto drift = part[i].get<record::StepDrift>();
      for (std::size_t replica = 0; replica < replicas.size(); ++replica) {
        std::vector<record::StepDrift>& own = replicas[replica];
        own.resize(part.size());
        own[i].step = drift.step;
        for (const record::TensorDrift& tensor : drift.tensors) {
          const bool everywhere = sharded && tensor.tensor.starts_with(optimizer_prefix);
          if (replica == mine || everywhere) own[i].tensors.push_back(tensor);
        }
      }
    }
  }
  return record::merged(replicas);
}

std::vector<std::vector<std::int64_t>> state_groups(TrainerState& state,
                                                    const record::PropagationSpec& wanted,
                                                    std::int64_t epochs) {
  const std::int64_t done = state.session().progress.cursor / state.spec.batch_size;
  const std::int64_t last = epochs * state.steps_per_epoch() - done;
  std::vector<std::int64_t> steps = wanted.steps;
  std::erase_if(steps, [&](std::int64_t step) { return step > last; });
  if (wanted.at_end && (steps.empty() || steps.back() != last)) steps.push_back(last);

  const std::uint64_t mine = state_bytes(state.session(), state.spec.optimizer, wanted.optimizer);
  std::vector<std::uint64_t> all(static_cast<std::size_t>(state.layout().world.size()));
  state.layout().world.allgather_equal(&mine, sizeof mine, all.data());
  const std::uint64_t largest = std::max<std::uint64_t>(1, *std::max_element(all.begin(), all.end()));
  const auto memory = static_cast<std::uint64_t>(wanted.memory_mib) << 20U;
  const auto room = static_cast<std::size_t>(std::max<std::uint64_t>(1, memory / largest));

  std::vector<std::vector<std::int64_t>> groups;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i % room == 0) groups.emplace_back();
    groups.back().push_back(steps[i]);
  }
  if (groups.size() > most_groups) {
    const std::uint64_t needed = ((steps.size() + most_groups - 1) / most_groups * largest >> 20U) + 1;
    throw mpi::AgreedError(
        ErrorCode::bad_input,
        fmt::format("propagation: {} states of {} bytes need {} golden runs for each trial, at most {} are "
                    "made; ask for fewer steps or set propagation.memory_mib to {}",
                    steps.size(), largest, groups.size(), most_groups, needed));
  }
  return groups;
}

}  // namespace bitrift::train
