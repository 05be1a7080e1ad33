// Drawing samples from a population.
#pragma once

#include <cstdint>
#include <vector>

#include "inject/draw/population.h"
#include "inject/upset/upsets.h"
#include "record/fault/fault_list.h"

namespace bitrift::inject {

struct Drawn {
  record::FaultList list;
  std::uint64_t redrawn = 0;
  std::vector<UpsetShare> upsets = {};  ///< see Plan
};

/// The most faults of one injection: drawing holds about 100 bytes of each in memory.
inline constexpr std::uint64_t most_faults = 20'000'000;

/// Throws Error(bad_input) if amount, measure and kind contradict each other.
void check_model(const record::FaultModel& model);

/// Draws samples one by one, keeps those that the policies allow, and reads the values that they hit. The
/// streams are those of docs/faults.md. Throws Error(bad_input) when more faults are requested than exist.
[[nodiscard]] Drawn draw_from(const ckpt::Reader& reader, const record::FaultModel& model,
                              const Population& population);

}  // namespace bitrift::inject
