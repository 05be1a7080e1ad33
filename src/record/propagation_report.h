// How far a run deviates from the golden one, tensor by tensor (docs/propagation.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/json/keys.h"

namespace bitrift::record {

/// After which steps a run's tensors are compared with the golden run's. At least one of steps and at_end.
struct PropagationSpec {
  std::vector<std::int64_t> steps;  ///< ascending optimizer steps since the resume; 0: as loaded
  bool at_end = true;               ///< also after the golden run's last step; "final" in a spec
  bool optimizer = false;           ///< compare optimizer/ as well as model/
  std::uint64_t every = 1;          ///< trials whose draw is a multiple of this record it
  std::int64_t memory_mib = 1024;   ///< the memory of a rank that golden states may take
  [[nodiscard]] bool wants_draw(std::uint64_t draw) const noexcept { return draw % every == 0; }
};
constexpr auto keys_of(std::type_identity<PropagationSpec>) {
  using enum Presence;
  return std::tuple(Key{"steps", &PropagationSpec::steps, defaulted},
                    Key{"final", &PropagationSpec::at_end, defaulted},
                    Key{"optimizer", &PropagationSpec::optimizer, defaulted},
                    Key{"every", &PropagationSpec::every, defaulted},
                    Key{"memory_mib", &PropagationSpec::memory_mib, defaulted});
}

/// How far one tensor is from the golden run's. All arithmetic is in double, with a1 the golden value, a2
/// the run's, over all elements; 0 / 0 counts as 0. A NaN or an infinity in a2 shows in norm, mean and max.
struct TensorDrift {
  std::string tensor;           ///< path: "model/conv1.weight"
  std::optional<int> replica;   ///< absent: the same in every replica
  std::uint64_t elements = 0;   ///< of the tensor
  std::uint64_t altered = 0;    ///< elements whose bits differ
  std::uint64_t nonfinite = 0;  ///< elements of the run's tensor that are NaN or infinite
  double norm = 0;              ///< ||a2 - a1|| / ||a1||, 2-norms
  double mean = 0;  ///< of |a2 - a1| / |a1| over elements with a1 != 0; where there are none: norm
  double max = 0;   ///< their maximum; where there are none: norm
};

/// The tensors that differ after a step, by path, then replica; none if the states are equal.
struct StepDrift {
  std::int64_t step = 0;  ///< since the resume
  std::vector<TensorDrift> tensors;
};

/// Reads the value at /propagation of a document that obeys the schema. Throws Error(bad_input) with file,
/// line and key when nothing is to be compared.
[[nodiscard]] PropagationSpec propagation_from(const Document& document);

/// {"step", "tensors": [paths], "altered": [...], ...}: one array a column, all equally long; "replica", with
/// null for all, only where some tensor needs it.
void to_json(Json& value, const StepDrift& drift);
/// Throws Json::exception, and Error(bad_file) when columns are not equally long.
void from_json(const Json& value, StepDrift& drift);

/// One list for all replicas, from the findings of each after the same steps: replicas[r][step]. A tensor
/// that differs in the same way in all replicas is listed once, any other once for each replica where it
/// differs.
[[nodiscard]] std::vector<StepDrift> merged(const std::vector<std::vector<StepDrift>>& replicas);

}  // namespace bitrift::record
