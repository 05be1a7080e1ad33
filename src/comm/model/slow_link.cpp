#include "comm/model/slow_link.h"

#include <algorithm>
#include <string>

#include "comm/graph/topology_graph.h"
#include "comm/model/quantity.h"
#include "core/error.h"

namespace bitrift::comm {
namespace {

int live_chip(const Topology& mesh, Place place, std::string_view text) {
  if (place.row >= mesh.rows() || place.column >= mesh.columns())
    fail(ErrorCode::bad_input, "slow link '{}': the mesh of {}x{} has no chip in row {}, column {}", text,
         mesh.rows(), mesh.columns(), place.row, place.column);
  const int chip = mesh.chip(place);
  if (!mesh.alive(chip)) fail(ErrorCode::bad_input, "slow link '{}': {} is dead", text, mesh.name(chip));
  return chip;
}

}  // namespace

SlowLink slow_link_from_text(const Topology& mesh, std::string_view text) {
  const std::size_t mark = text.find(':');
  const auto ends = link_from_text(text.substr(0, mark));
  if (!ends || mark == std::string_view::npos) {
    fail(ErrorCode::bad_input, "slow link '{}': expected ROW,COLUMN-ROW,COLUMN:TIME, such as 0,0-0,1:2ms",
         text);
  }
  const double delay = seconds_from_text(text.substr(mark + 1), fmt::format("slow link '{}': delay", text));
  if (!(delay > 0)) fail(ErrorCode::bad_input, "slow link '{}': expected a delay of more than 0", text);
  const int one = live_chip(mesh, ends->first, text), other = live_chip(mesh, ends->second, text);
  if (!mesh.linked(one, other))
    fail(ErrorCode::bad_input, "slow link '{}': no live link joins {} and {}; name two neighbours", text,
         mesh.name(one), mesh.name(other));
  return {std::minmax(one, other), delay};
}

std::vector<double> delays_of(const Topology& mesh, const Graph& graph, std::span<const SlowLink> slow) {
  std::vector<double> delays(graph.edges().size());
  const std::vector<int> vertices = vertices_of(mesh);
  for (const SlowLink& one : slow) {
    const int other = vertices.at(at_index(one.link.second));
    const auto neighbours = graph.neighbours(vertices.at(at_index(one.link.first)));
    const auto found =
        std::ranges::find_if(neighbours, [&](const Neighbour& next) { return next.vertex == other; });
    if (found == neighbours.end()) fail(ErrorCode::internal, "a slow link is not one of the mesh");
    delays[at_index(found->edge)] += one.delay;
  }
  return delays;
}

}  // namespace bitrift::comm
