#include "spec/mesh_spec.h"

#include <fmt/format.h>

#include "comm/plan/planner.h"
#include "core/error.h"
#include "core/named_enum.h"

namespace bitrift::record {
namespace {

std::string text_of(const comm::Topology& topology, int chip) {
  const comm::Place place = topology.place(chip);
  return fmt::format("{},{}", place.row, place.column);
}

}  // namespace

int chip_at(const comm::Topology& mesh, ChipPlace place) { return mesh.chip({place.row, place.column}); }

ChipPlace place_of(const comm::Topology& mesh, int chip) {
  const comm::Place place = mesh.place(chip);
  return {place.row, place.column};
}

comm::Link ends_of(const comm::Topology& mesh, const FailedLink& link) {
  return {chip_at(mesh, link.one), chip_at(mesh, link.other)};
}

MeshSpec mesh_from_json(const Json& value, const std::string& where) {
  const comm::TopologyText text{
      .mesh = fmt::format("{}x{}", value.at("rows").get<int>(), value.at("columns").get<int>()),
      .wrap = value.value("wrap", std::string(name_of(comm::Wrap::neither))),
      .dead = value.value("dead", std::vector<std::string>()),
      .dead_links = value.value("dead_links", std::vector<std::string>())};
  MeshSpec mesh;
  try {
    mesh.topology = comm::topology_from_text(text);
  } catch (const Error& error) {
    throw Error(ErrorCode::bad_input, where + ": " + error.what());
  }
  if (value.contains("schedule"))
    mesh.schedule = parse_named<comm::Scheme>(value["schedule"].get<std::string>());
  return mesh;
}

Json to_json(const MeshSpec& mesh) {
  const comm::Topology& topology = mesh.topology;
  Json value = {
      {"rows", topology.rows()}, {"columns", topology.columns()}, {"schedule", name_of(mesh.schedule)}};
  if (topology.wrap() != comm::Wrap::neither) value["wrap"] = name_of(topology.wrap());
  for (const int chip : topology.dead()) value["dead"].push_back(text_of(topology, chip));
  for (const auto& [one, other] : topology.dead_links())
    value["dead_links"].push_back(text_of(topology, one) + "-" + text_of(topology, other));
  return value;
}

void check_mesh(const MeshSpec& mesh, const std::string& where) {
  try {
    // Trees serve every connected mesh.
    if (mesh.schedule == comm::Scheme::trees) {
      mesh.topology.require_connected();
    } else {
      (void)comm::plan_schedule(mesh.topology, mesh.schedule);
    }
  } catch (const Error& error) {
    throw Error(ErrorCode::bad_input, where + ": " + error.what());
  }
}

}  // namespace bitrift::record
