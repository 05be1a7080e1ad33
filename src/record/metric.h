// The metrics of an evaluation: those that bitrift knows, and those that a user's script measures.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/named_enum.h"
#include "record/run.h"

namespace bitrift::record {

enum class StandardMetric { test_accuracy, test_capped_loss, test_loss, train_accuracy, train_loss };
constexpr EnumNames<5> names_of(StandardMetric) {
  return {"metric", {"test_accuracy", "test_capped_loss", "test_loss", "train_accuracy", "train_loss"}};
}

/// In the order of the enumeration.
inline constexpr StandardMetric standard_metrics[] = {
    StandardMetric::test_accuracy, StandardMetric::test_capped_loss, StandardMetric::test_loss,
    StandardMetric::train_accuracy, StandardMetric::train_loss};

enum class Better { lower, higher };
constexpr EnumNames<2> names_of(Better) { return {"direction of a metric", {"lower", "higher"}}; }

/// A metric that a user's training program names, such as a perplexity; measured on the test data.
struct CustomMetric {
  std::string name;
  Better better = Better::lower;
  auto operator<=>(const CustomMetric&) const = default;
};

/// How a difference between two values of a metric is judged and printed.
enum class MetricScale {
  share,  ///< an accuracy, in 0..1: by the difference, in points
  ratio,  ///< a loss above 0: by the logarithm, in percent
  plain,  ///< any number: by the difference, in the metric's own unit
};

/// Standard metrics come before custom ones, in the order of their enumeration; custom ones follow by name.
class Metric {
 public:
  using enum StandardMetric;
  Metric(StandardMetric metric) : metric_(metric) {}           // NOLINT(google-explicit-constructor)
  Metric(CustomMetric metric) : metric_(std::move(metric)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] std::string name() const;
  [[nodiscard]] Better better() const noexcept;
  [[nodiscard]] MetricScale scale() const noexcept;
  [[nodiscard]] bool is_custom() const noexcept { return std::holds_alternative<CustomMetric>(metric_); }
  /// nullopt if the evaluation lacks it. Throws Error(conflict) if the evaluation has a custom metric of this
  /// name for which the other direction is better.
  [[nodiscard]] std::optional<double> value_in(const Evaluation& evaluation) const;
  void set(Evaluation& evaluation, double value) const;

  auto operator<=>(const Metric&) const = default;

 private:
  std::variant<StandardMetric, CustomMetric> metric_;
};

/// The metric that a text names: "test_loss", or "perplexity=lower" for a custom one.
[[nodiscard]] std::optional<Metric> find_metric(std::string_view text);
/// The same. Throws Error(bad_input) that lists the standard metrics and shows how to name others.
[[nodiscard]] Metric metric_from_text(std::string_view text);

/// How a change of a metric for the worse is called: "rise" or "fall".
[[nodiscard]] const char* harm_word(const Metric& metric) noexcept;
/// A change of a metric with its unit: "0.83 points" (share: 0.0083), "7.6 %" (ratio: 0.076), "0.31" (plain).
[[nodiscard]] std::string change_text(const Metric& metric, double change);

/// The standard metrics that count as harm by default: test_accuracy and test_capped_loss.
[[nodiscard]] std::vector<Metric> default_metrics();

/// The metrics for which the evaluation has a value, in ascending order.
[[nodiscard]] std::vector<Metric> metrics_in(const Evaluation& evaluation);

}  // namespace bitrift::record

/// "test_loss", or {"perplexity": "lower"}. The inverse throws Error(bad_file) for other values.
template <>
struct nlohmann::adl_serializer<bitrift::record::Metric> {
  static void to_json(json& value, const bitrift::record::Metric& metric);
  static bitrift::record::Metric from_json(const json& value);
};
