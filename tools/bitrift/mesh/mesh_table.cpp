// `bitrift mesh table`: all schemes on one mesh, by the size of the buffer.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "comm/graph/topology_graph.h"
#include "comm/model/quantity.h"
#include "comm/model/schedule_model.h"
#include "comm/plan/planner.h"
#include "commands.h"
#include "core/error.h"
#include "mesh/mesh_commands.h"
#include "mesh/mesh_options.h"
#include "options/topology_options.h"
#include "output.h"

namespace bitrift::cli {
namespace {

struct MeshTableOptions {
  comm::TopologyText mesh;
  WorkText work;
  std::vector<std::string> bytes{"100K", "1M", "10M", "102M", "1.34G"};
  bool csv = false;
};

struct TableRow {
  comm::Scheme scheme = comm::Scheme::other;
  double bytes = 0;
  std::uint32_t chunks = 0;
  std::size_t sends = 0;
  double seconds = 0, of_bound = 0, busiest = 0;  // modelled
};

struct MeshTable {
  std::vector<TableRow> rows;
  std::vector<std::string> refusals;  ///< of schemes that do not apply
};

TableRow row_of(const comm::Schedule& schedule, const comm::ScheduleModel& model,
                const comm::Workload& work) {
  const comm::Forecast forecast = model.run(work);
  return {.scheme = schedule.scheme(),
          .bytes = work.bytes,
          .chunks = schedule.chunks(),
          .sends = schedule.size(),
          .seconds = forecast.seconds,
          .of_bound = forecast.of_bound(),
          .busiest = forecast.links.front().seconds / forecast.seconds};
}

/// Trees are planned for each size, the other schemes once.
void add_rows(MeshTable& table, const comm::Topology& mesh, const comm::Fraction& tau, comm::Scheme scheme,
              const std::vector<comm::Workload>& works) {
  std::optional<comm::Schedule> schedule;
  std::optional<comm::ScheduleModel> model;
  for (const comm::Workload& work : works) {
    if (!schedule || scheme == comm::Scheme::trees) {
      schedule = comm::plan_schedule(mesh, scheme, work);
      model.emplace(*schedule, tau);
    }
    table.rows.push_back(row_of(*schedule, *model, work));
  }
}

MeshTable table_of(const comm::Topology& mesh, const std::vector<comm::Workload>& works) {
  mesh.require_connected();
  if (mesh.live().size() == 1)
    fail(ErrorCode::bad_input, "a single live chip sends nothing, so there is nothing to model");
  const comm::Fraction tau = comm::strength_of(comm::graph_of(mesh)).tau;
  MeshTable table;
  for (const comm::Scheme scheme : comm::planned_schemes) {
    try {
      add_rows(table, mesh, tau, scheme, works);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      table.refusals.emplace_back(error.what());
    }
  }
  return table;
}

std::string csv_of(const MeshTable& table) {
  std::string text = "schedule,bytes,chunks,sends,modelled_seconds,modelled_of_bound,modelled_busiest_link\n";
  for (const TableRow& row : table.rows) {
    text += fmt::format("{},{:.0f},{},{},{:.6g},{:.4f},{:.4f}\n", name_of(row.scheme), row.bytes, row.chunks,
                        row.sends, row.seconds, row.of_bound, row.busiest);
  }
  return text;
}

std::string text_of(const MeshTable& table, const comm::Topology& mesh, const comm::LinkCost& cost) {
  std::string text = mesh_line(mesh) + cost_line(cost);
  text +=
      "modelled  time; the bound divided by it; the part of it for which the busiest link is occupied\n\n";
  Table rows({"schedule", "bytes", "chunks", "sends", "time", "of bound", "busiest"});
  for (const TableRow& row : table.rows) {
    rows.add({name_of(row.scheme), comm::bytes_text(row.bytes), std::to_string(row.chunks),
              std::to_string(row.sends), comm::seconds_text(row.seconds), fmt::format("{:.4f}", row.of_bound),
              fmt::format("{:.3f}", row.busiest)});
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
  const MeshTable table = table_of(mesh, works);
  print(options.csv ? csv_of(table) : text_of(table, mesh, works.front().cost));
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
  command->add_flag("--csv", options->csv, "print comma-separated values: only schedules that apply");
  command->footer(
      fmt::format("Examples:\n"
                  "  bitrift mesh table --mesh 4x4 --dead 1,1,2x2\n"
                  "  bitrift mesh table --mesh 8x8 --wrap both --bytes 1M --bytes 102M --csv\n\n"
                  "Every time is modelled, not measured (docs/mesh-bound.md).\n\n{}",
                  exit_codes));
  command->callback([options] { print_table(*options); });
}

}  // namespace bitrift::cli
