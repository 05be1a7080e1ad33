// The checkpoint that a study writes in all formats.
#pragma once

#include <cstdint>
#include <filesystem>

#include "spec/training_spec.h"

namespace bitrift::study {

struct BaseCheckpoint {
  record::TrainingSpec training;
  std::int64_t step = 0;         ///< progress/step
  std::uint64_t parameters = 0;  ///< elements of weights, biases and norms
};

/// Throws Error(bad_file) for a file that bitrift-train did not write, and as ckpt::Reader does.
[[nodiscard]] BaseCheckpoint read_base(const std::filesystem::path& path);

}  // namespace bitrift::study
