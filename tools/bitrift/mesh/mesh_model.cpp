// `bitrift mesh model`: how long a schedule takes, by the model of the links.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "comm/graph/topology_graph.h"
#include "comm/mesh_schedule_json.h"
#include "comm/model/quantity.h"
#include "comm/model/schedule_model.h"
#include "comm/plan/scheme_model.h"
#include "comm/verify.h"
#include "commands.h"
#include "core/error.h"
#include "mesh/mesh_commands.h"
#include "mesh/mesh_options.h"
#include "mesh/mesh_step.h"
#include "options/topology_options.h"
#include "output.h"

namespace bitrift::cli {
namespace {

using record::Json;

struct MeshModelOptions {
  std::string plan;
  comm::TopologyText mesh;
  std::string schedule;
  WorkText work;
  std::vector<std::string> slow;
  StepText step;
  bool json = false, csv = false;
};

/// What is printed.
struct Modelled {
  comm::Schedule schedule;
  comm::Workload work;
  std::vector<comm::SlowLink> slow;
  comm::Fraction tau;
  comm::Forecast forecast;
  double without_slow = 0;  ///< seconds of the allreduce if no link were slow
  std::optional<StepForecast> step;
};

constexpr std::size_t shown_links = 5;

comm::Schedule schedule_of(const MeshModelOptions& options, const comm::Workload& work) {
  if (options.plan.empty()) {
    if (options.mesh.mesh.empty() || options.schedule.empty())
      fail(ErrorCode::bad_input, "nothing to model: name a PLAN, or give --mesh and --schedule");
    return comm::plan_schedule(comm::topology_from_text(options.mesh),
                               parse_named<comm::Scheme>(options.schedule), work);
  }
  comm::Schedule schedule = comm::read_schedule(options.plan);
  if (const comm::Verdict verdict = comm::verify(schedule); verdict.counter_example) {
    fail(ErrorCode::bad_file, "{}: not an allreduce ({}); see `bitrift mesh verify`", printable(options.plan),
         name_of(verdict.counter_example->flaw));
  }
  return schedule;
}

std::string place_text(const comm::Topology& mesh, int chip) {
  return fmt::format("{},{}", mesh.place(chip).row, mesh.place(chip).column);
}

std::string forecast_text(const Modelled& modelled, const StepText& step) {
  const auto& [schedule, work, slow, tau, forecast, without_slow, steps] = modelled;
  const comm::Topology& mesh = schedule.topology();
  std::string text = mesh_line(mesh);
  text += fmt::format("schedule  {}: {}, {}, for a buffer of {}\n", name_of(schedule.scheme()),
                      counted(schedule.size(), "send"), counted(schedule.chunks(), "chunk"),
                      comm::bytes_text(work.bytes));
  text += cost_line(work.cost);
  for (const comm::SlowLink& one : slow) {
    text +=
        fmt::format("slow      {} to {}: assumed, each message {} late\n", place_text(mesh, one.link.first),
                    place_text(mesh, one.link.second), comm::seconds_text(one.delay));
  }
  text += fmt::format("modelled  {}: {:.3f} of the bound\n", comm::seconds_text(forecast.seconds),
                      forecast.of_bound());
  if (!slow.empty())
    text +=
        fmt::format("if fast   {}, modelled without the slow links: they cost {}\n",
                    comm::seconds_text(without_slow), comm::seconds_text(forecast.seconds - without_slow));
  text += fmt::format("bound     {}, by tau = {}/{} and the assumed bandwidth\n",
                      comm::seconds_text(forecast.bound), tau.numerator, tau.denominator);
  if (steps) text += step_text(*steps, step);
  text += fmt::format(
      "links     modelled: the busiest is occupied for {:.3f} of the time, the average for {:.3f}\n",
      forecast.links.front().seconds / forecast.seconds, forecast.mean_load() / forecast.seconds);
  for (std::size_t i = 0; i < std::min(shown_links, forecast.links.size()); ++i) {
    const comm::LinkLoad& link = forecast.links[i];
    text += fmt::format("busy      {} to {}: {}, modelled\n", place_text(mesh, link.from),
                        place_text(mesh, link.to), comm::seconds_text(link.seconds));
  }
  return text;
}

/// A line for each direction of a link.
std::string links_csv(const comm::Topology& mesh, const comm::Forecast& forecast) {
  std::string text = "from_row,from_column,to_row,to_column,modelled_seconds,modelled_part\n";
  for (const comm::LinkLoad& link : forecast.links)
    text += fmt::format("{},{},{:.6g},{:.4f}\n", place_text(mesh, link.from), place_text(mesh, link.to),
                        link.seconds, link.seconds / forecast.seconds);
  return text;
}

Json forecast_json(const Modelled& modelled, const StepText& step) {
  const auto& [schedule, work, slow, tau, forecast, without_slow, steps] = modelled;
  Json links = Json::array();
  for (const comm::LinkLoad& link : forecast.links)
    links.push_back({{"from", link.from}, {"to", link.to}, {"seconds", link.seconds}});
  Json out = {
      {"topology", Json(comm::to_json(schedule.topology()))},
      {"schedule",
       {{"scheme", name_of(schedule.scheme())}, {"sends", schedule.size()}, {"chunks", schedule.chunks()}}},
      {"assumed",
       {{"bytes", work.bytes},
        {"bandwidth", work.cost.bandwidth},
        {"latency", work.cost.latency},
        {"overhead", work.cost.overhead}}},
      {"tau", {{"numerator", tau.numerator}, {"denominator", tau.denominator}}},
      {"bound_seconds", forecast.bound},
      {"modelled",
       {{"seconds", forecast.seconds}, {"of_bound", forecast.of_bound()}, {"links", std::move(links)}}}};
  for (const comm::SlowLink& one : slow)
    out["assumed"]["slow_links"].push_back(
        {{"link", {one.link.first, one.link.second}}, {"delay", one.delay}});
  if (!slow.empty()) out["modelled"]["seconds_without_slow_links"] = without_slow;
  if (steps) {
    out["assumed"]["compute"] = steps->step.compute;
    out["assumed"]["overlap"] = step.overlap;
    out["modelled"]["step"] = step_json(*steps);
  }
  return out;
}

std::optional<StepForecast> steps_of(const MeshModelOptions& options, const Modelled& modelled) {
  const std::optional<comm::StepCost> cost = step_cost_of(options.step, modelled.work.bytes);
  if (!cost) return std::nullopt;
  const comm::Topology& mesh = modelled.schedule.topology();
  std::optional<double> whole = comm::WholeMeshModel(mesh, modelled.schedule.scheme()).seconds(modelled.work);
  if (!modelled.slow.empty() && !comm::without_failures(mesh)) whole = modelled.without_slow;
  return step_forecast(mesh, *cost, modelled.forecast.seconds, whole);
}

void model_mesh(const MeshModelOptions& options) {
  const comm::Workload work = workload_of(options.work);
  comm::Schedule schedule = schedule_of(options, work);
  if (schedule.topology().live().size() == 1)
    fail(ErrorCode::bad_input, "a single live chip sends nothing, so there is nothing to model");
  std::vector<comm::SlowLink> slow;
  for (const std::string& text : options.slow)
    slow.push_back(comm::slow_link_from_text(schedule.topology(), text));
  const comm::Fraction tau = comm::strength_of(comm::graph_of(schedule.topology())).tau;
  const comm::ScheduleModel model(schedule, tau);
  comm::Forecast forecast = model.run(work, slow);
  if (options.csv) {
    print(links_csv(schedule.topology(), forecast));
    return;
  }
  const double without_slow = slow.empty() ? forecast.seconds : model.run(work).seconds;
  Modelled modelled{std::move(schedule), work, std::move(slow), tau, std::move(forecast), without_slow, {}};
  modelled.step = steps_of(options, modelled);
  if (options.json) {
    print_json(forecast_json(modelled, options.step));
  } else {
    print(forecast_text(modelled, options.step));
  }
}

}  // namespace

void add_mesh_model(CLI::App& parent) {
  const auto options = std::make_shared<MeshModelOptions>();
  CLI::App* command =
      parent.add_subcommand("model", "Model how long a schedule takes, and how busy links are");
  CLI::Option* plan = command->add_option("PLAN", options->plan, "file of `bitrift mesh plan -o`");
  add_topology_options(*command, options->mesh);
  add_schedule_option(*command, options->schedule);
  for (const char* name : {"--mesh", "--wrap", "--dead", "--dead-link", "--schedule"})
    plan->excludes(command->get_option(name));
  add_bytes_option(*command, options->work);
  add_cost_options(*command, options->work);
  command
      ->add_option("--slow-link", options->slow,
                   "a link whose messages are late, and by how much, such as 0,0-0,1:2ms; can be repeated")
      ->type_name("LINK:TIME")
      ->allow_extra_args(false);
  add_step_options(*command, options->step);
  CLI::Option* json = command->add_flag("--json", options->json, "print JSON, with all links");
  command->add_flag("--csv", options->csv, "print comma-separated values: the load of each link")
      ->excludes(json);
  command->footer(
      fmt::format("Examples:\n"
                  "  bitrift mesh model plan.json --bytes 1.34G\n"
                  "  bitrift mesh model --mesh 8x8 --dead 3,3,2x2 --schedule trees --bytes 102M "
                  "--latency 1us --overhead 0.1us --bandwidth 83G\n"
                  "  bitrift mesh model --mesh 8x8 --dead 3,3,2x2 --schedule trees --bytes 400M "
                  "--compute 50ms --overlap 0.5\n"
                  "  bitrift mesh model --mesh 8x8 --schedule ring --slow-link 3,3-3,4:10us\n\n"
                  "Every time is modelled, not measured (docs/mesh-bound.md).\n\n{}",
                  exit_codes));
  command->callback([options] { model_mesh(*options); });
}

}  // namespace bitrift::cli
