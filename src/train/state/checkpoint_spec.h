// What a checkpoint says about its run, read without a session.
#pragma once

#include "ckpt/reader.h"
#include "spec/training_spec.h"

namespace bitrift::train {

/// Throws Error(bad_file): not one of bitrift's, or of another schema version.
[[nodiscard]] record::TrainingSpec checkpoint_spec(const ckpt::Reader& reader);
/// A single integer of 64 bits, such as progress/step; `otherwise` if the checkpoint has no such tensor.
/// Throws Error(bad_file): it has another type or shape.
[[nodiscard]] std::int64_t integer_in(const ckpt::Reader& reader, const std::string& path,
                                      std::int64_t otherwise);

}  // namespace bitrift::train
