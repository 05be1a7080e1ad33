#include "record/metric.h"

#include "core/error.h"

namespace bitrift::record {

Metric metric_from_name(std::string_view name) {
  if (const auto metric = find_named<Metric>(name)) return *metric;
  fail(ErrorCode::bad_input, "'{}' is not a metric: use {}", name, list_names<Metric>());
}

bool is_loss(Metric metric) noexcept {
  return metric == Metric::test_capped_loss || metric == Metric::test_loss || metric == Metric::train_loss;
}

bool is_training(Metric metric) noexcept {
  return metric == Metric::train_accuracy || metric == Metric::train_loss;
}

std::optional<double> value_of(const Evaluation& evaluation, Metric metric) noexcept {
  switch (metric) {
    case Metric::test_accuracy:
      return evaluation.test_accuracy;
    case Metric::test_capped_loss:
      return evaluation.test_capped_loss;
    case Metric::test_loss:
      return evaluation.test_loss;
    case Metric::train_accuracy:
      return evaluation.train_accuracy;
    case Metric::train_loss:
      return evaluation.train_loss;
  }
  return std::nullopt;
}

}  // namespace bitrift::record
