// `bitrift mesh table`: all schemes on one mesh, by the size of the buffer.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "comm/graph/topology_graph.h"
#include "comm/model/quantity.h"
#include "comm/plan/scheme_model.h"
#include "commands.h"
#include "core/error.h"
#include "mesh/mesh_commands.h"
#include "mesh/mesh_options.h"
#include "mesh/mesh_step.h"
#include "options/topology_options.h"
#include "output.h"

namespace bitrift::cli {
namespace {

struct MeshTableOptions {
  comm::TopologyText mesh;
  WorkText work;
  std::vector<std::string> bytes{"100K", "1M", "10M", "102M", "1.34G"};
  StepText step;
  bool csv = false;
};

struct TableRow {
  comm::Scheme scheme = comm::Scheme::other;
  double bytes = 0;
  std::uint32_t chunks = 0;
  std::size_t sends = 0;
  double seconds = 0, of_bound = 0, busiest = 0;  // modelled
  std::optional<StepForecast> step;
};

struct MeshTable {
  std::vector<TableRow> rows;
  std::vector<std::string> refusals;  ///< of schemes that do not apply
};

void add_rows(MeshTable& table, const comm::Topology& mesh, const comm::Fraction& tau, comm::Scheme scheme,
              const std::vector<comm::Workload>& works) {
  comm::SchemeModel model(mesh, scheme, tau);
  for (const comm::Workload& work : works) {
    const comm::Forecast forecast = model.run(work);
    table.rows.push_back({.scheme = scheme,
                          .bytes = work.bytes,
                          .chunks = model.schedule().chunks(),
                          .sends = model.schedule().size(),
                          .seconds = forecast.seconds,
                          .of_bound = forecast.of_bound(),
                          .busiest = forecast.links.front().seconds / forecast.seconds,
                          .step = {}});
  }
}

/// Adds the steps of the scheme's rows. Apart from add_rows(), because the models of a large mesh and of the
/// same one without failures take hundreds of MB each.
void add_steps(MeshTable& table, const comm::Topology& mesh, comm::Scheme scheme, const comm::LinkCost& links,
               const StepText& step) {
  comm::WholeMeshModel whole(mesh, scheme);
  for (TableRow& row : table.rows) {
    if (row.scheme != scheme) continue;
    if (const std::optional<comm::StepCost> cost = step_cost_of(step, row.bytes); cost)
      row.step = step_forecast(mesh, *cost, row.seconds, whole.seconds({.bytes = row.bytes, .cost = links}));
  }
}

MeshTable table_of(const comm::Topology& mesh, const std::vector<comm::Workload>& works,
                   const StepText& step) {
  mesh.require_connected();
  if (mesh.live().size() == 1)
    fail(ErrorCode::bad_input, "a single live chip sends nothing, so there is nothing to model");
  const comm::Fraction tau = comm::strength_of(comm::graph_of(mesh)).tau;
  MeshTable table;
  for (const comm::Scheme scheme : comm::planned_schemes) {
    try {
      add_rows(table, mesh, tau, scheme, works);
      add_steps(table, mesh, scheme, works.front().cost, step);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      table.refusals.emplace_back(error.what());
    }
  }
  return table;
}

/// Empty where there is no number.
std::string step_csv(const std::optional<StepForecast>& step, const StepText& stated) {
  if (!step) return ",,,,,,,";
  std::string text = fmt::format("{:.6g},{},{:.6g},{:.6g},{:.6g}", step->step.compute, origin_of(stated),
                                 stated.overlap, step->step.seconds(), step->step.rate());
  if (!step->whole) return text + ",,,";
  return text + fmt::format(",{:.6g},{:.6g},{:.6g}", step->whole->seconds(), step->lost->throughput,
                            step->lost->chips);
}

std::string csv_of(const MeshTable& table, const StepText& step) {
  std::string text =
      "schedule,bytes,chunks,sends,modelled_seconds,modelled_of_bound,modelled_busiest_link,compute_seconds,"
      "compute_origin,overlap,modelled_step_seconds,modelled_batches_per_second_per_chip,"
      "modelled_step_seconds_without_failures,modelled_throughput_lost,chips_lost\n";
  for (const TableRow& row : table.rows) {
    text +=
        fmt::format("{},{:.0f},{},{},{:.6g},{:.4f},{:.4f},{}\n", name_of(row.scheme), row.bytes, row.chunks,
                    row.sends, row.seconds, row.of_bound, row.busiest, step_csv(row.step, step));
  }
  return text;
}

std::string head_of(const comm::Topology& mesh, const comm::LinkCost& cost, const StepText& step) {
  std::string text = mesh_line(mesh) + cost_line(cost);
  text += "modelled  time; the bound divided by it; the part of it for which the busiest link is occupied\n";
  text += fmt::format(
      "step      modelled: computing ({}), then the allreduce, of which a part of {:g} can overlap\n",
      step.compute.empty() ? "assumed: 16 ms for 102 MB, 170 ms for 1.34 GB" : "stated: " + step.compute,
      step.overlap);
  text += "rate      modelled: batches a second on each live chip\n";
  if (const auto whole = comm::without_failures(mesh); whole) {
    text += fmt::format(
        "lost      modelled: throughput lost against the whole mesh with the same schedule; {:.3f} % of the "
        "chips are dead\n",
        100 * (1 - static_cast<double>(mesh.live().size()) / mesh.chips()));
  }
  return text + "\n";
}

std::string text_of(const MeshTable& table, const comm::Topology& mesh, const comm::LinkCost& cost,
                    const StepText& step) {
  std::string text = head_of(mesh, cost, step);
  Table rows({"schedule", "bytes", "chunks", "sends", "time", "of bound", "busiest", "step", "rate", "lost"});
  for (const TableRow& row : table.rows) {
    rows.add({name_of(row.scheme), comm::bytes_text(row.bytes), std::to_string(row.chunks),
              std::to_string(row.sends), comm::seconds_text(row.seconds), fmt::format("{:.4f}", row.of_bound),
              fmt::format("{:.3f}", row.busiest),
              row.step ? comm::seconds_text(row.step->step.seconds()) : "-",
              row.step ? fmt::format("{:.2f}", row.step->step.rate()) : "-",
              row.step && row.step->lost ? fmt::format("{:.3f}%", 100 * row.step->lost->throughput) : "-"});
  }
  text += rows.text();
  if (!table.refusals.empty()) text += "\n";
  for (const std::string& refusal : table.refusals) text += fmt::format("left out  {}\n", refusal);
  return text;
}

void print_table(const MeshTableOptions& options) {
  std::vector<comm::Workload> works;
  for (const std::string& bytes : options.bytes)
    works.push_back({.bytes = comm::bytes_from_text(bytes, "--bytes"), .cost = cost_of(options.work)});
  const comm::Topology mesh = comm::topology_from_text(options.mesh);
  const MeshTable table = table_of(mesh, works, options.step);
  print(options.csv ? csv_of(table, options.step) : text_of(table, mesh, works.front().cost, options.step));
}

}  // namespace

void add_mesh_table(CLI::App& parent) {
  const auto options = std::make_shared<MeshTableOptions>();
  CLI::App* command =
      parent.add_subcommand("table", "Model all schedules on a mesh, for several sizes of the buffer");
  add_topology_options(*command, options->mesh)->required();
  command
      ->add_option("--bytes", options->bytes,
                   "size of each chip's buffer, such as 102M; can be repeated (default: 100K, 1M, 10M, 102M "
                   "and 1.34G)")
      ->type_name("SIZE")
      ->take_all();
  add_cost_options(*command, options->work);
  add_step_options(*command, options->step);
  command->add_flag("--csv", options->csv, "print comma-separated values: only schedules that apply");
  command->footer(
      fmt::format("Examples:\n"
                  "  bitrift mesh table --mesh 4x4 --dead 1,1,2x2\n"
                  "  bitrift mesh table --mesh 8x8 --wrap both --bytes 1M --bytes 102M --csv\n"
                  "  bitrift mesh table --mesh 8x8 --dead 3,3,2x2 --bytes 400M --compute 50ms\n\n"
                  "Every time is modelled, not measured (docs/mesh-bound.md).\n\n{}",
                  exit_codes));
  command->callback([options] { print_table(*options); });
}

}  // namespace bitrift::cli
