// Training steps in the output of `bitrift mesh model` and `bitrift mesh table`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "comm/model/training_step.h"
#include "comm/topology.h"
#include "record/json/json.h"

namespace bitrift::cli {

/// What the user wrote: units are checked when it is read.
struct StepText {
  std::string compute;  ///< empty: what is assumed for the size of the buffer, if anything
  double overlap = 0;
};
/// --compute and --overlap.
void add_step_options(CLI::App& command, StepText& step);
/// Nothing where no time is stated or assumed.
[[nodiscard]] std::optional<comm::StepCost> step_cost_of(const StepText& step, double bytes);
/// "assumed" or "stated".
[[nodiscard]] std::string_view origin_of(const StepText& step);

struct StepForecast {
  comm::TrainingStep step;
  std::optional<comm::TrainingStep> whole;  ///< without failures
  std::optional<comm::FailureLoss> lost;    ///< where there is a whole one
};
/// whole: the seconds of an allreduce on the mesh without failures.
[[nodiscard]] StepForecast step_forecast(const comm::Topology& mesh, const comm::StepCost& cost,
                                         double allreduce, std::optional<double> whole);

/// Lines for people.
[[nodiscard]] std::string step_text(const StepForecast& forecast, const StepText& step);
[[nodiscard]] record::Json step_json(const StepForecast& forecast);

}  // namespace bitrift::cli
