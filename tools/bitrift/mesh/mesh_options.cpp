#include "mesh/mesh_options.h"

#include <fmt/format.h>

#include "comm/model/quantity.h"
#include "comm/plan/planner.h"
#include "options/one_of.h"
#include "output.h"

namespace bitrift::cli {

CLI::Option* add_mesh_options(CLI::App& command, comm::TopologyText& mesh) {
  CLI::Option* size =
      command.add_option("--mesh", mesh.mesh, "rows and columns, such as 4x4")->type_name("MESH");
  command
      .add_option(
          "--wrap", mesh.wrap,
          "which lines of chips are closed to rings: rows links the ends of each row; both is a torus "
          "(default: neither)")
      ->check(one_of<comm::Wrap>());
  command
      .add_option(
          "--dead", mesh.dead,
          "a dead chip, such as 0,3, or a dead board, such as 1,1,2x2: its first chip's row and column "
          "from 0, height and width; can be repeated")
      ->type_name("CHIPS")
      ->take_all();
  command
      .add_option("--dead-link", mesh.dead_links,
                  "a dead link between neighbours, such as 0,0-0,1; can be repeated")
      ->type_name("LINK")
      ->take_all();
  return size;
}

void add_bytes_option(CLI::App& command, WorkText& work) {
  command
      .add_option("--bytes", work.bytes,
                  "size of each chip's buffer: a number and nothing, K, M, G or T for powers of 1000 "
                  "(default: 102M, the gradients of ResNet-50)")
      ->type_name("SIZE");
}

void add_bandwidth_option(CLI::App& command, WorkText& work) {
  command
      .add_option("--bandwidth", work.bandwidth,
                  "bytes per second in each direction of a link, written like a size (default: 83G)")
      ->type_name("RATE");
}

void add_cost_options(CLI::App& command, WorkText& work) {
  add_bandwidth_option(command, work);
  command
      .add_option("--latency", work.latency,
                  "from the end of a message on a link to its arrival: a number and ns, us, ms or s "
                  "(default: 1us)")
      ->type_name("TIME");
  command
      .add_option("--overhead", work.overhead,
                  "for which each message also occupies the link (default: 0.1us)")
      ->type_name("TIME");
}

comm::LinkCost cost_of(const WorkText& work) {
  return {.bandwidth = comm::bandwidth_from_text(work.bandwidth, "--bandwidth"),
          .latency = comm::seconds_from_text(work.latency, "--latency"),
          .overhead = comm::seconds_from_text(work.overhead, "--overhead")};
}

comm::Workload workload_of(const WorkText& work) {
  return {.bytes = comm::bytes_from_text(work.bytes, "--bytes"), .cost = cost_of(work)};
}

CLI::Option* add_schedule_option(CLI::App& command, std::string& schedule) {
  std::vector<std::string> names;
  names.reserve(comm::planned_schemes.size());
  for (const comm::Scheme scheme : comm::planned_schemes) names.emplace_back(name_of(scheme));
  return command.add_option("--schedule", schedule, "how gradients travel (docs/mesh.md)")
      ->check(CLI::IsMember(names));
}

std::string mesh_line(const comm::Topology& mesh) {
  return fmt::format("mesh      {}x{}, wrap {}, {} alive\n", mesh.rows(), mesh.columns(),
                     name_of(mesh.wrap()), counted(mesh.live().size(), "chip"));
}

std::string cost_line(const comm::LinkCost& cost) {
  return fmt::format("assumed   links of {}/s in each direction, latency {}, overhead {} a message\n",
                     comm::bytes_text(cost.bandwidth), comm::seconds_text(cost.latency),
                     comm::seconds_text(cost.overhead));
}

}  // namespace bitrift::cli
