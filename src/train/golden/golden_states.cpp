#include "train/golden/golden_states.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "train/golden/drift.h"
#include "train/state/checkpoint_names.h"

namespace bitrift::train {

namespace {

// nullptr represents zeros.
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

}  // namespace

void GoldenStates::clear(bool optimizer) {
  states_.clear();
  optimizer_ = optimizer;
}

std::vector<StateTensor> GoldenStates::chosen(Session& session) const {
  std::vector<StateTensor> tensors = session.tensors(false);
  std::erase_if(tensors, [&](const StateTensor& tensor) {
    return !tensor.meta.path.starts_with("model/") &&
           !(optimizer_ && tensor.meta.path.starts_with(optimizer_prefix));
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

}  // namespace bitrift::train
