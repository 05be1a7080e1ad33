#include "mesh/mesh_step.h"

#include <fmt/format.h>

#include "comm/model/quantity.h"

namespace bitrift::cli {

using record::Json;

void add_step_options(CLI::App& command, StepText& step) {
  command
      .add_option("--compute", step.compute,
                  "for which each chip computes in a training step, such as 20ms (default: 16ms for buffers "
                  "of 102M, 170ms for 1.34G, and no steps for other sizes)")
      ->type_name("TIME");
  command
      .add_option("--overlap", step.overlap,
                  "part of the allreduce that can run during the backward pass, 0 to 1 (default: 0)")
      ->type_name("PART")
      ->check(CLI::Range(0.0, 1.0));
}

std::optional<comm::StepCost> step_cost_of(const StepText& step, double bytes) {
  const std::optional<double> compute =
      step.compute.empty() ? comm::assumed_compute(bytes)
                           : std::optional(comm::seconds_from_text(step.compute, "--compute"));
  if (!compute) return std::nullopt;
  return comm::StepCost{.compute = *compute, .overlap = step.overlap};
}

std::string_view origin_of(const StepText& step) { return step.compute.empty() ? "assumed" : "stated"; }

StepForecast step_forecast(const comm::Topology& mesh, const comm::StepCost& cost, double allreduce,
                           std::optional<double> whole) {
  StepForecast out{.step = comm::training_step(cost, allreduce), .whole = {}, .lost = {}};
  if (whole) {
    out.whole = comm::training_step(cost, *whole);
    out.lost = comm::failure_loss(out.step, static_cast<int>(mesh.live().size()), *out.whole, mesh.chips());
  }
  return out;
}

std::string step_text(const StepForecast& forecast, const StepText& step) {
  std::string text =
      fmt::format("step      modelled: {}: {} of computing ({}) and {} of allreduce, of which {} overlap\n",
                  comm::seconds_text(forecast.step.seconds()), comm::seconds_text(forecast.step.compute),
                  origin_of(step), comm::seconds_text(forecast.step.allreduce),
                  forecast.step.hidden > 0 ? comm::seconds_text(forecast.step.hidden) : "0 s");
  text +=
      fmt::format("rate      modelled: {:.2f} batches a second on each live chip\n", forecast.step.rate());
  if (forecast.whole) {
    text += fmt::format("whole     modelled: {} a step without failures, with {} of allreduce, same scheme\n",
                        comm::seconds_text(forecast.whole->seconds()),
                        comm::seconds_text(forecast.whole->allreduce));
    text += fmt::format(
        "lost      modelled: {:.3f} % of the whole mesh's throughput, with {:.3f} % of its chips\n",
        100 * forecast.lost->throughput, 100 * forecast.lost->chips);
  }
  return text;
}

Json step_json(const StepForecast& forecast) {
  const auto one = [](const comm::TrainingStep& step) {
    return Json{{"seconds", step.seconds()},
                {"allreduce_seconds", step.allreduce},
                {"hidden_seconds", step.hidden},
                {"batches_per_second_per_chip", step.rate()}};
  };
  Json out = one(forecast.step);
  if (forecast.whole) {
    out["without_failures"] = one(*forecast.whole);
    out["lost"] = {{"throughput", forecast.lost->throughput}, {"chips", forecast.lost->chips}};
  }
  return out;
}

}  // namespace bitrift::cli
