// How far clean runs lie apart: the measure of "different".
#pragma once

#include <vector>

#include "record/run.h"

namespace bitrift::analyze {

/// One-sided 99 % prediction limits for one evaluation. A metric outside its limit is worse than a further
/// clean run would be with 99 % confidence; better than golden is never outside.
struct Limits {
  double train_loss_max = 0;
  double train_accuracy_min = 0;
  double test_loss_max = 0;
  double test_accuracy_min = 0;
  bool has_train = false;  ///< false for evaluations after zero steps
};

/// Limits per evaluation index.
using Envelope = std::vector<Limits>;

/// mean -/+ t(level, n-1) s sqrt(1 + 1/n) per evaluation and metric (normal theory; Hahn and Meeker,
/// "Statistical Intervals", 1991, section 4.8). The mean is formed as x_0 + mean(x_i - x_0), so that equal
/// runs give exactly their value. runs[i] are the evaluations of one clean run; all must have the same
/// length. Throws Error(bad_input) on fewer than `minimum` runs, unequal lengths or a metric that is not
/// finite.
[[nodiscard]] Envelope make_envelope(const std::vector<std::vector<record::Evaluation>>& runs,
                                     double level = 0.99, std::size_t minimum = 20);

}  // namespace bitrift::analyze
