// The spec that a checkpoint carries.
#pragma once

#include "ckpt/reader.h"
#include "spec/training_spec.h"

namespace bitrift::train {

/// Throws Error(bad_file): not one of bitrift's, or of another schema version.
[[nodiscard]] record::TrainingSpec checkpoint_spec(const ckpt::Reader& reader);

}  // namespace bitrift::train
