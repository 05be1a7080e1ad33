// The values that samples hit, read in the order of the file.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/file_run.h"
#include "inject/draw/population.h"

namespace bitrift::inject {

/// A drawn place and the number of its draw.
struct Sample {
  Population::Location where;
  std::uint64_t number = 0;
};

class OldValues {
 public:
  OldValues(const ckpt::Reader& reader, const Population& population);
  /// Reads the values of a batch, neighbouring ones together.
  void read(const std::vector<Sample>& batch);
  /// The pattern of the i-th sample of the batch.
  [[nodiscard]] std::uint64_t old(std::size_t i) const { return patterns_[i]; }

 private:
  void read_elements(const Target& target, std::uint64_t first, std::uint64_t count);

  const ckpt::Reader& reader_;
  const Population& population_;
  std::vector<std::uint32_t> order_;
  std::vector<std::uint64_t> flat_, patterns_;
  std::vector<std::uint8_t> block_;
  std::optional<FileRun> file_;  // for stored bytes
};

}  // namespace bitrift::inject
