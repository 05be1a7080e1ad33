#include "train/run/state_comparison.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "train/run/drift.h"
#include "train/run/trainer_state.h"

namespace bitrift::train {
namespace {

// A trial of so many groups takes twice as many runs, which a deadline of 20 golden runs still holds.
constexpr std::size_t most_groups = 8;

// nullptr stands for zeros.
std::optional<record::TensorDrift> drift_of(const ckpt::TensorMeta& meta, const void* golden,
                                            const void* now) {
  const std::string zeros(golden == nullptr || now == nullptr ? meta.bytes() : 0, '\0');
  if (golden == nullptr) golden = zeros.data();
  if (now == nullptr) now = zeros.data();
  if (std::memcmp(golden, now, meta.bytes()) == 0) return std::nullopt;
  const ckpt::Drift drift = ckpt::drift(meta.format, golden, now, meta.elements());
  return record::TensorDrift{.tensor = meta.path,
                             .replica = {},
                             .elements = meta.elements(),
                             .altered = drift.altered,
                             .nonfinite = drift.nonfinite,
                             .norm = drift.norm,
                             .mean = drift.mean,
                             .max = drift.max};
}

// Bytes of this rank's tensors, whether or not the optimizer has made its state yet.
std::uint64_t state_bytes(Session& session, const record::OptimizerSpec& optimizer, bool with_optimizer) {
  std::uint64_t bytes = 0;
  for (const StateTensor& tensor : session.tensors(false)) {
    if (tensor.meta.path.starts_with("model/")) bytes += tensor.meta.bytes();
  }
  if (!with_optimizer) return bytes;
  for (const auto& [name, scalar] : optimizer_slots(optimizer)) {
    for (const Optimizer::Parameter& parameter : session.optimizer().parameters())
      bytes += scalar ? sizeof(float) : parameter.value.nbytes();
  }
  return bytes;
}

std::string dumped(const std::vector<record::StepDrift>& drifts) {
  record::Json value = record::Json::array();
  for (const record::StepDrift& drift : drifts) value.push_back(record::to_json(drift));
  return value.dump();
}

}  // namespace

void GoldenStates::clear(bool optimizer) {
  states_.clear();
  optimizer_ = optimizer;
}

std::vector<StateTensor> GoldenStates::chosen(Session& session) const {
  std::vector<StateTensor> tensors = session.tensors(false);
  std::erase_if(tensors, [&](const StateTensor& tensor) {
    return !tensor.meta.path.starts_with("model/") &&
           !(optimizer_ && tensor.meta.path.starts_with("optimizer/"));
  });
  return tensors;
}

void GoldenStates::keep(std::int64_t step, Session& session) {
  std::map<std::string, Kept>& kept = states_[step];
  for (const StateTensor& tensor : chosen(session)) {
    tensor.read([&](const void* bytes) {
      kept[tensor.meta.path] = {tensor.meta,
                                std::string(static_cast<const char*>(bytes), tensor.meta.bytes())};
    });
  }
}

record::StepDrift GoldenStates::compare(std::int64_t step, Session& session) const {
  const auto state = states_.find(step);
  if (state == states_.end()) fail(ErrorCode::internal, "no golden state was kept after step {}", step);
  const std::map<std::string, Kept>& golden = state->second;
  record::StepDrift result{step, {}};
  const auto add = [&](const std::optional<record::TensorDrift>& drift) {
    if (drift) result.tensors.push_back(*drift);
  };
  std::map<std::string, bool> seen;
  for (const StateTensor& tensor : chosen(session)) {
    const auto kept = golden.find(tensor.meta.path);
    seen[tensor.meta.path] = true;
    tensor.read([&](const void* bytes) {
      add(drift_of(tensor.meta, kept == golden.end() ? nullptr : kept->second.bytes.data(), bytes));
    });
  }
  for (const auto& [path, kept] : golden) {
    if (!seen.contains(path)) add(drift_of(kept.meta, kept.bytes.data(), nullptr));
  }
  std::sort(result.tensors.begin(), result.tensors.end(),
            [](const auto& a, const auto& b) { return a.tensor < b.tensor; });
  return result;
}

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
    state_.golden_states.keep(steps, state_.session);
  } else {
    found_.push_back(state_.golden_states.compare(steps, state_.session));
  }
}

void StateWatch::same_after(std::int64_t steps) {
  if (!chosen_) return;
  for (const std::int64_t step : chosen_->steps) {
    if (step > steps) found_.push_back({step, {}});
  }
}

std::optional<std::vector<record::StepDrift>> StateWatch::gather() {
  if (!chosen_ || chosen_->keep) return std::nullopt;
  const Layout& layout = state_.layout;
  const std::vector<std::string> parts = layout.world.gather(dumped(found_), 0);
  if (layout.world.rank() != 0) return std::nullopt;
  std::vector<std::vector<record::StepDrift>> replicas(static_cast<std::size_t>(layout.replica_count()));
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    std::vector<record::StepDrift>& own = replicas[rank / static_cast<std::size_t>(layout.stages())];
    const record::Json part = record::Json::parse(parts[rank]);
    own.resize(part.size());
    for (std::size_t i = 0; i < part.size(); ++i) {
      record::StepDrift drift = record::step_drift_from_json(part[i]);
      own[i].step = drift.step;
      std::move(drift.tensors.begin(), drift.tensors.end(), std::back_inserter(own[i].tensors));
    }
  }
  return record::merged(replicas);
}

std::vector<std::vector<std::int64_t>> Trainer::state_groups(const record::PropagationSpec& wanted,
                                                             std::int64_t epochs) {
  TrainerState& state = *state_;
  const std::int64_t done = state.session.progress.cursor / state.spec.batch_size;
  const std::int64_t last = epochs * state.steps_per_epoch() - done;
  std::vector<std::int64_t> steps = wanted.steps;
  std::erase_if(steps, [&](std::int64_t step) { return step > last; });
  if (wanted.at_end && (steps.empty() || steps.back() != last)) steps.push_back(last);

  const std::uint64_t mine = state_bytes(state.session, state.spec.optimizer, wanted.optimizer);
  std::vector<std::uint64_t> all(static_cast<std::size_t>(state.layout.world.size()));
  state.layout.world.allgather_equal(&mine, sizeof mine, all.data());
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

ChosenStates PropagationRuns::golden(const record::PropagationSpec& wanted, std::int64_t epochs,
                                     std::uint64_t order) {
  groups_ = trainer_.state_groups(wanted, epochs);
  held_ = {order, 0};
  return {groups_.empty() ? std::vector<std::int64_t>() : groups_[0], wanted.optimizer, true};
}

record::RunResult PropagationRuns::trial(const RunOptions& options, const record::PropagationSpec& wanted,
                                         const Loads& loads) {
  if (groups_.empty()) fail(ErrorCode::internal, "a trial is to record its propagation before a golden run");
  if (held_.order != options.order) {
    hold(wanted, {options.order, 0}, loads);
    loads.trial();
  }
  RunOptions first = options;
  first.states = ChosenStates{groups_[held_.group], wanted.optimizer, false};
  record::RunResult result = trainer_.run(first);
  const std::size_t had = held_.group;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    if (group != had) add_group(wanted, group, result, loads);
  }
  if (result.propagation) {
    std::sort(result.propagation->begin(), result.propagation->end(),
              [](const auto& a, const auto& b) { return a.step < b.step; });
  }
  return result;
}

// Runs the golden run up to the last state of a group, and keeps those.
void PropagationRuns::hold(const record::PropagationSpec& wanted, const Held& next, const Loads& loads) {
  RunOptions pass;
  pass.steps = groups_[next.group].back();
  pass.states = ChosenStates{groups_[next.group], wanted.optimizer, true};
  loads.base();
  (void)trainer_.run(pass);
  held_ = next;
}

void PropagationRuns::add_group(const record::PropagationSpec& wanted, std::size_t group,
                                record::RunResult& result, const Loads& loads) {
  const std::vector<std::int64_t>& steps = groups_[group];
  if (steps.front() > result.steps) return;  // the run ended before
  if (result.returned_step && steps.front() > *result.returned_step) {
    for (const std::int64_t step : steps) {
      if (result.propagation) result.propagation->push_back({step, {}});
    }
    return;
  }
  hold(wanted, {held_.order, group}, loads);
  RunOptions pass;
  pass.steps = steps.back();
  pass.states = ChosenStates{steps, wanted.optimizer, false};
  loads.trial();
  const record::RunResult part = trainer_.run(pass);
  if (result.propagation && part.propagation)
    result.propagation->insert(result.propagation->end(), part.propagation->begin(), part.propagation->end());
}

}  // namespace bitrift::train
