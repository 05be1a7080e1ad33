// The trace of a run: everything that an independent program needs to repeat its path (docs/data-order.md,
// "Trace").
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "core/file.h"
#include "record/run.h"
#include "spec/training_spec.h"

namespace bitrift::train {

/// One step.
struct TraceStep {
  std::int64_t epoch = 0;  ///< epoch of the batch, 0-based
  std::int64_t step = 0;   ///< steps of the whole training, this one included
  std::span<const std::int64_t> indices;
  double learning_rate = 0;
  double loss = 0;
  std::string digest;          ///< of the state after the step
  bool replicas_equal = true;  ///< all replicas have that digest
};

/// A JSON Lines file that appears under its name only when finish() is called.
class Trace {
 public:
  /// Throws Error(io) when the file cannot be made.
  explicit Trace(const std::filesystem::path& path);
  void begin(const record::TrainingSpec& spec, const record::Parallel& parallel, std::uint64_t seed,
             std::int64_t samples, const std::string& digest);
  void step(const TraceStep& step);
  void evaluation(const record::Evaluation& evaluation);
  /// Throws Error(io): full disk.
  void finish();

 private:
  void line(const record::Json& value);

  PendingFile file_;
  std::ofstream out_;
};

}  // namespace bitrift::train
