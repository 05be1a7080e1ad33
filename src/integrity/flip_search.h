// Flipped bits that explain why a sum does not fit.
#pragma once

#include <filesystem>
#include <memory>

#include "integrity/explanation.h"
#include "integrity/summed_part.h"

namespace bitrift::integrity {

/// Looks for flipped bits in the damaged parts of one file.
class FlipSearch {
 public:
  explicit FlipSearch(const std::filesystem::path& file);
  ~FlipSearch();
  FlipSearch(FlipSearch&&) = delete;
  FlipSearch& operator=(FlipSearch&&) = delete;

  /// Tries each single bit of the part, and of its stored sum in HDF5; for a CRC, then pairs of bits in one
  /// word of four bytes, as long as the chance stays below 1 %. Bits of deflated data are flipped one by one,
  /// and the data decoded again, if at most 2^37 bytes come out in all.
  [[nodiscard]] Explanation explain(const SummedPart& part) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bitrift::integrity
