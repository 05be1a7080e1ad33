// Planning: from a fault model and a file's layout to a list of single-element changes. Pure, except that it
// reads old values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ckpt/reader.h"
#include "inject/draw/census.h"
#include "inject/draw/planned.h"
#include "inject/draw/population.h"
#include "record/fault/fault.h"
#include "record/fault/fault_list.h"
#include "record/trial.h"

namespace bitrift::inject {

/// Tensors in the form that the file has; a dataset's path stands for all of its parts. Paths that the file
/// does not have are left out.
[[nodiscard]] std::vector<TargetedTensor> tensors_of(const ckpt::Reader& reader,
                                                     const std::vector<std::string>& paths);

/// The population that a model draws from. Kinds that alter whole elements count elements only; nan and inf
/// leave out integers, which have neither. Throws Error(bad_input) when the model contradicts itself, else as
/// Population does.
[[nodiscard]] Population population_of(const ckpt::Reader& reader, const record::FaultModel& model);

/// Gives a model without an amount a count: for a chosen element, all bits that `bits` lists by number;
/// otherwise 1. Throws as Population does.
void set_default_count(const ckpt::Reader& reader, record::FaultModel& model);

/// Draws the faults, and counts the population. Plane metadata: plan_metadata. The i-th sample is
/// Permutation(population, derive_key(seed, "inject"))(i) for the measure `bit`; docs/faults.md describes the
/// other measures. Throws Error(bad_input) when more faults are requested than exist.
[[nodiscard]] Plan plan(const ckpt::Reader& reader, const record::FaultModel& model);

/// The faults of plan() without the count of the population, which reads all values if a policy depends on
/// them: drawing costs O(faults).
[[nodiscard]] record::FaultList draw(const ckpt::Reader& reader, const record::FaultModel& model);

/// Single-bit flip at one place, with the old pattern read from the file. For campaigns, which do their own
/// drawing.
[[nodiscard]] record::AppliedFault flip_at(const ckpt::Reader& reader, const Population::Location& where);

/// The faults that change every element of these tensors, 40 bytes each. Throws Error(not_found |
/// unsupported) that names the tensor.
[[nodiscard]] record::FaultList whole_tensors(const ckpt::Reader& reader,
                                              const std::vector<record::WholeTensor>& tensors);

}  // namespace bitrift::inject
