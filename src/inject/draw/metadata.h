// Faults in a file's own structures.
#pragma once

#include "ckpt/reader.h"
#include "inject/draw/planned.h"
#include "record/fault/fault.h"

namespace bitrift::inject {

/// Draws the faults of a model of the plane metadata: flips of single bits, the i-th being Permutation(bits,
/// derive_key(seed, "inject.metadata"))(i) of the bits of Container::metadata(), byte by byte, bit 0 first.
/// Throws Error(bad_input) when the model uses keys that this plane does not have (tensors, roles, fields,
/// other kinds, a fraction).
[[nodiscard]] Plan plan_metadata(const ckpt::Reader& reader, const record::FaultModel& model);

}  // namespace bitrift::inject
