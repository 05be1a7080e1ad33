// `bitrift mesh bound`: the least time of an allreduce on a mesh, with its certificates.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "comm/graph/bound_certificate.h"
#include "comm/graph/topology_graph.h"
#include "comm/model/quantity.h"
#include "commands.h"
#include "mesh/mesh_commands.h"
#include "mesh/mesh_options.h"
#include "options/topology_options.h"
#include "output.h"

namespace bitrift::cli {
namespace {

using record::Json;

struct MeshBoundOptions {
  comm::TopologyText mesh;
  WorkText work;
  bool json = false;
};

std::string fraction_text(const comm::Fraction& fraction) {
  return fmt::format("{}/{}", fraction.numerator, fraction.denominator);
}

/// The chips of each part.
std::vector<std::vector<int>> parts_of(const comm::Topology& mesh, const comm::Strength& strength) {
  std::vector<std::vector<int>> parts(static_cast<std::size_t>(strength.parts));
  for (std::size_t i = 0; i < strength.part.size(); ++i)
    parts[static_cast<std::size_t>(strength.part[i])].push_back(mesh.live()[i]);
  return parts;
}

std::int64_t links_between_parts(const comm::Graph& graph, const comm::Strength& strength) {
  return std::ranges::count_if(graph.edges(), [&](const comm::Edge& edge) {
    return strength.part[comm::at_index(edge.a)] != strength.part[comm::at_index(edge.b)];
  });
}

std::string partition_text(const std::vector<std::vector<int>>& parts) {
  constexpr std::size_t most_shown = 8;
  std::string text;
  std::size_t shown = 0, alone = 0;
  for (const std::vector<int>& part : parts) {
    if (part.size() == 1) {
      ++alone;
    } else if (++shown <= most_shown) {
      const std::size_t named = std::min(part.size(), most_shown);
      text += fmt::format("part      {}: {}{}\n", counted(part.size(), "chip"),
                          fmt::join(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(named), " "),
                          named < part.size() ? " ..." : "");
    }
  }
  if (shown > most_shown) text += fmt::format("part      {} more; --json has all\n", shown - most_shown);
  if (alone > 0) text += fmt::format("part      {} alone\n", counted(alone, "chip"));
  return text;
}

Json trees_json(const comm::Topology& mesh, const comm::Packing& packing) {
  Json trees = Json::array();
  for (const comm::Tree& tree : packing.trees) {
    Json edges = Json::array();
    for (const int vertex : tree.order) {
      if (vertex == tree.root) continue;
      edges.push_back({mesh.live()[comm::at_index(vertex)],
                       mesh.live()[comm::at_index(tree.parent[comm::at_index(vertex)])]});
    }
    trees.push_back({{"root", mesh.live()[comm::at_index(tree.root)]}, {"edges", std::move(edges)}});
  }
  return trees;
}

void bound_mesh(const MeshBoundOptions& options) {
  const double bytes = comm::bytes_from_text(options.work.bytes, "--bytes");
  const double bandwidth = comm::bandwidth_from_text(options.work.bandwidth, "--bandwidth");
  const comm::Topology mesh = comm::topology_from_text(options.mesh);
  mesh.require_connected();
  const comm::Graph graph = comm::graph_of(mesh);
  const comm::BoundCertificate bound = comm::certify_bound(graph);
  const comm::Fraction tau = bound.strength.tau;
  const double seconds = comm::bound_seconds(bytes, bandwidth, tau.value());
  const std::vector<std::vector<int>> parts = parts_of(mesh, bound.strength);
  const std::int64_t between = links_between_parts(graph, bound.strength);
  if (options.json) {
    print_json({{"topology", Json(comm::to_json(mesh))},
                {"tau", {{"numerator", tau.numerator}, {"denominator", tau.denominator}}},
                {"partition", {{"links_between_parts", between}, {"parts", parts}}},
                {"packing",
                 {{"busiest_link", bound.packing.busiest},
                  {"value", bound.packing.value()},
                  {"gap", bound.gap()},
                  {"trees", trees_json(mesh, bound.packing)}}},
                {"assumed", {{"bytes", bytes}, {"bandwidth", bandwidth}}},
                {"bound_seconds", seconds}});
    return;
  }
  std::string text = mesh_line(mesh);
  text += fmt::format("tau       {} = {:.4f}, exact\n", fraction_text(tau), tau.value());
  text +=
      fmt::format("at most   {}: {} parts with {} between them, {} / ({} - 1)\n", fraction_text(tau),
                  parts.size(), counted(static_cast<std::uint64_t>(between), "link"), between, parts.size());
  text += partition_text(parts);
  text += fmt::format("at least  {:.4f}: {}, of which at most {:.0f} share a link; {:.2f} % below\n",
                      bound.packing.value(), counted(bound.packing.trees.size(), "spanning tree"),
                      bound.packing.busiest, 100 * bound.gap());
  text += fmt::format("time      at least {} for {} with {}/s in each direction of a link (assumed)\n",
                      comm::seconds_text(seconds), comm::bytes_text(bytes), comm::bytes_text(bandwidth));
  print(text);
}

}  // namespace

void add_mesh_bound(CLI::App& parent) {
  const auto options = std::make_shared<MeshBoundOptions>();
  CLI::App* command =
      parent.add_subcommand("bound", "Compute the least time of an allreduce on a mesh, with its proof");
  add_topology_options(*command, options->mesh)->required();
  add_bytes_option(*command, options->work);
  add_bandwidth_option(*command, options->work);
  command->add_flag("--json", options->json, "print JSON, with all parts and trees");
  command->footer(
      fmt::format("Examples:\n"
                  "  bitrift mesh bound --mesh 4x4 --dead 1,1,2x2\n"
                  "  bitrift mesh bound --mesh 32x32 --wrap both --dead 15,15,2x2 --bytes 1.34G "
                  "--bandwidth 83G --json\n\n{}",
                  exit_codes));
  command->callback([options] { bound_mesh(*options); });
}

}  // namespace bitrift::cli
