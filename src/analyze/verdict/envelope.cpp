#include "analyze/verdict/envelope.h"

#include <cmath>
#include <optional>

#include <boost/math/distributions/students_t.hpp>

#include "core/error.h"

namespace bitrift::analyze {
namespace {

struct Moments {
  double mean = 0;
  double margin = 0;  // t s sqrt(1 + 1/n)
};

Moments moments(const std::vector<double>& values, double level) {
  const auto n = static_cast<double>(values.size());
  // Taken about the first value: equal values then give exactly that value and no margin.
  double sum = 0;
  for (const double value : values) sum += value - values.front();
  const double mean = sum / n;
  double squares = 0;
  for (const double value : values) squares += std::pow(value - values.front() - mean, 2);
  const double deviation = std::sqrt(squares / (n - 1));
  const double t = boost::math::quantile(boost::math::students_t(n - 1), level);
  return {values.front() + mean, t * deviation * std::sqrt(1 + 1 / n)};
}

// One metric of one evaluation over all runs; nullopt when no run has it.
template <typename Get>
std::optional<Moments> limits_of(const std::vector<std::vector<record::Evaluation>>& runs, std::size_t index,
                                 double level, const char* name, Get get) {
  std::vector<double> values;
  for (const auto& run : runs) {
    const std::optional<double> value = get(run[index]);
    if (!value) continue;
    if (!std::isfinite(*value)) {
      fail(ErrorCode::bad_input, "envelope: {} of evaluation {} is not finite in a clean run", name,
           index + 1);
    }
    values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  if (values.size() != runs.size()) {
    fail(ErrorCode::bad_input, "envelope: {} of evaluation {} is there in {} of {} clean runs", name,
         index + 1, values.size(), runs.size());
  }
  return moments(values, level);
}

}  // namespace

Envelope make_envelope(const std::vector<std::vector<record::Evaluation>>& runs, double level,
                       std::size_t minimum) {
  if (!(level > 0.5 && level < 1)) {
    fail(ErrorCode::bad_input, "envelope: level {}: give a number between 0.5 and 1", level);
  }
  if (runs.size() < minimum || runs.size() < 2) {
    fail(ErrorCode::bad_input, "envelope: {} clean runs, at least {} are needed", runs.size(),
         minimum < 2 ? 2 : minimum);
  }
  Envelope envelope;
  for (const auto& run : runs) {
    if (run.size() != runs.front().size()) {
      fail(ErrorCode::bad_input, "envelope: clean runs have {} and {} evaluations", runs.front().size(),
           run.size());
    }
  }
  using record::Evaluation;
  for (std::size_t i = 0; i < runs.front().size(); ++i) {
    const auto train_loss =
        limits_of(runs, i, level, "train_loss", [](const Evaluation& e) { return e.train_loss; });
    const auto train_accuracy =
        limits_of(runs, i, level, "train_accuracy", [](const Evaluation& e) { return e.train_accuracy; });
    const auto test_loss = limits_of(runs, i, level, "test_loss",
                                     [](const Evaluation& e) { return std::optional(e.test_loss); });
    const auto test_accuracy = limits_of(runs, i, level, "test_accuracy",
                                         [](const Evaluation& e) { return std::optional(e.test_accuracy); });
    if (train_loss.has_value() != train_accuracy.has_value()) {
      fail(ErrorCode::bad_input, "envelope: evaluation {} has only one of train_loss and train_accuracy",
           i + 1);
    }
    Limits limits;
    limits.has_train = train_loss.has_value();
    if (train_loss) limits.train_loss_max = train_loss->mean + train_loss->margin;
    if (train_accuracy) limits.train_accuracy_min = train_accuracy->mean - train_accuracy->margin;
    limits.test_loss_max = test_loss->mean + test_loss->margin;
    limits.test_accuracy_min = test_accuracy->mean - test_accuracy->margin;
    envelope.push_back(limits);
  }
  return envelope;
}

}  // namespace bitrift::analyze
