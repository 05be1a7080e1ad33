#include "options/topology_options.h"

#include "comm/plan/planner.h"
#include "options/one_of.h"

namespace bitrift::cli {

CLI::Option* add_topology_options(CLI::App& command, comm::TopologyText& mesh) {
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

std::vector<std::string> planned_scheme_names() {
  std::vector<std::string> names;
  names.reserve(comm::planned_schemes.size());
  for (const comm::Scheme scheme : comm::planned_schemes) names.emplace_back(name_of(scheme));
  return names;
}

CLI::Option* add_schedule_option(CLI::App& command, std::string& schedule) {
  return command.add_option("--schedule", schedule, "how gradients travel (docs/mesh.md)")
      ->check(CLI::IsMember(planned_scheme_names()));
}

}  // namespace bitrift::cli
