#include "record/metric.h"

#include <algorithm>
#include <map>

#include "core/error.h"

namespace bitrift::record {
namespace {

std::optional<double> Evaluation::*member_of(StandardMetric metric) noexcept {
  switch (metric) {
    case StandardMetric::test_accuracy:
      return &Evaluation::test_accuracy;
    case StandardMetric::test_capped_loss:
      return &Evaluation::test_capped_loss;
    case StandardMetric::test_loss:
      return &Evaluation::test_loss;
    case StandardMetric::train_accuracy:
      return &Evaluation::train_accuracy;
    case StandardMetric::train_loss:
      break;
  }
  return &Evaluation::train_loss;
}

std::map<std::string, double> Evaluation::*map_of(Better better) noexcept {
  return better == Better::lower ? &Evaluation::lower_is_better : &Evaluation::higher_is_better;
}

}  // namespace

std::optional<Metric> find_metric(std::string_view text) {
  if (const auto metric = find_named<StandardMetric>(text)) return *metric;
  const std::size_t equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  if (equals == std::string_view::npos || name.empty() || find_named<StandardMetric>(name))
    return std::nullopt;
  const auto better = find_named<Better>(text.substr(equals + 1));
  if (!better) return std::nullopt;
  return CustomMetric{std::string(name), *better};
}

std::string Metric::name() const {
  const auto* const custom = std::get_if<CustomMetric>(&metric_);
  return custom != nullptr ? custom->name : name_of(std::get<StandardMetric>(metric_));
}

Better Metric::better() const noexcept {
  if (const auto* const custom = std::get_if<CustomMetric>(&metric_)) return custom->better;
  return scale() == MetricScale::share ? Better::higher : Better::lower;
}

MetricScale Metric::scale() const noexcept {
  const auto* const standard = std::get_if<StandardMetric>(&metric_);
  if (standard == nullptr) return MetricScale::plain;
  const bool accuracy =
      *standard == StandardMetric::test_accuracy || *standard == StandardMetric::train_accuracy;
  return accuracy ? MetricScale::share : MetricScale::ratio;
}

std::optional<double> Metric::value_in(const Evaluation& evaluation) const {
  const auto* const custom = std::get_if<CustomMetric>(&metric_);
  if (custom == nullptr) return evaluation.*member_of(std::get<StandardMetric>(metric_));
  const Better other = custom->better == Better::lower ? Better::higher : Better::lower;
  if ((evaluation.*map_of(other)).contains(custom->name)) {
    fail(ErrorCode::conflict,
         "{}: the training program says that {} is better, and analysis.metrics or --metrics that {} is",
         custom->name, name_of(other), name_of(custom->better));
  }
  const auto& values = evaluation.*map_of(custom->better);
  const auto found = values.find(custom->name);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

void Metric::set(Evaluation& evaluation, double value) const {
  if (const auto* const custom = std::get_if<CustomMetric>(&metric_)) {
    (evaluation.*map_of(custom->better))[custom->name] = value;
  } else {
    evaluation.*member_of(std::get<StandardMetric>(metric_)) = value;
  }
}

Metric metric_from_text(std::string_view text) {
  if (const auto metric = find_metric(text)) return *metric;
  fail(ErrorCode::bad_input,
       "'{}' is not a metric: use {}, or, for one that your own program measures, NAME=lower or NAME=higher",
       text, list_names<StandardMetric>());
}

const char* harm_word(const Metric& metric) noexcept {
  return metric.better() == Better::lower ? "rise" : "fall";
}

std::string change_text(const Metric& metric, double change) {
  switch (metric.scale()) {
    case MetricScale::share:
      return fmt::format("{:.2f} points", 100 * change);
    case MetricScale::ratio:
      return fmt::format("{:.2g} %", 100 * change);
    case MetricScale::plain:
      break;
  }
  return fmt::format("{:.3g}", change);
}

std::vector<Metric> default_metrics() { return {Metric::test_accuracy, Metric::test_capped_loss}; }

std::vector<Metric> metrics_in(const Evaluation& evaluation) {
  std::vector<Metric> metrics;
  for (const StandardMetric metric : standard_metrics) {
    if (evaluation.*member_of(metric)) metrics.emplace_back(metric);
  }
  std::vector<Metric> custom;
  for (const auto& [name, value] : evaluation.lower_is_better)
    custom.emplace_back(CustomMetric{name, Better::lower});
  for (const auto& [name, value] : evaluation.higher_is_better)
    custom.emplace_back(CustomMetric{name, Better::higher});
  std::sort(custom.begin(), custom.end());
  metrics.insert(metrics.end(), custom.begin(), custom.end());
  return metrics;
}

}  // namespace bitrift::record

void nlohmann::adl_serializer<bitrift::record::Metric>::to_json(json& value,
                                                                const bitrift::record::Metric& metric) {
  value = metric.is_custom() ? json{{metric.name(), metric.better()}} : json(metric.name());
}

bitrift::record::Metric nlohmann::adl_serializer<bitrift::record::Metric>::from_json(const json& value) {
  const bool custom = value.is_object() && value.size() == 1 && value.begin()->is_string();
  const std::string text =
      custom ? value.begin().key() + "=" + value.begin()->get<std::string>() : value.get<std::string>();
  if (auto metric = bitrift::record::find_metric(text)) return *metric;
  bitrift::fail(bitrift::ErrorCode::bad_file, "'{}' is not a valid metric", text);
}
