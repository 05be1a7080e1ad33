// The metrics of an evaluation, by name.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/named_enum.h"
#include "record/run.h"

namespace bitrift::record {

enum class Metric { test_accuracy, test_capped_loss, test_loss, train_accuracy, train_loss };
constexpr EnumNames<5> names_of(Metric) {
  return {"metric", {"test_accuracy", "test_capped_loss", "test_loss", "train_accuracy", "train_loss"}};
}

/// In the order of the enumeration.
inline constexpr Metric all_metrics[] = {Metric::test_accuracy, Metric::test_capped_loss, Metric::test_loss,
                                         Metric::train_accuracy, Metric::train_loss};

/// The metric with this name. Throws Error(bad_input) that lists all names.
[[nodiscard]] Metric metric_from_name(std::string_view name);
/// Whether less is better; such differences are judged by the logarithm.
[[nodiscard]] bool is_loss(Metric metric) noexcept;
/// Whether it is measured on the training batches.
[[nodiscard]] bool is_training(Metric metric) noexcept;
/// nullopt if the evaluation lacks it.
[[nodiscard]] std::optional<double> value_of(const Evaluation& evaluation, Metric metric) noexcept;

}  // namespace bitrift::record
