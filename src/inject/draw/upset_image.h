// The memory that holds the targeted tensors of a model of upsets.
#pragma once

#include "inject/draw/population.h"
#include "inject/upset/upsets.h"
#include "record/fault/fault.h"

namespace bitrift::inject {

/// Block i of the image is target i. Throws Error(bad_input) when no upset escapes.
[[nodiscard]] Upsets upsets_of(const Population& population, const record::FaultModel& model);

}  // namespace bitrift::inject
