// `bitrift mesh`: allreduce schedules on meshes with failed chips.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "comm/mesh_schedule_json.h"
#include "comm/plan/planner.h"
#include "comm/verify.h"
#include "commands.h"
#include "core/error.h"
#include "core/file.h"
#include "mesh/mesh_commands.h"
#include "mesh/mesh_options.h"
#include "options/topology_options.h"
#include "output.h"

namespace bitrift::cli {
namespace {

struct MeshPlanOptions {
  comm::TopologyText mesh;
  std::string schedule;
  std::string output;
  WorkText work;
};

std::string plan_text(const comm::Schedule& schedule, const comm::ProofSummary& proof) {
  const comm::Topology& mesh = schedule.topology();
  std::string text = mesh_line(mesh);
  text += fmt::format("schedule  {}: {}, {}, longest chain of waits {}\n", name_of(schedule.scheme()),
                      counted(proof.sends, "send"), counted(proof.chunks, "chunk"), with_commas(proof.steps));
  text += fmt::format(
      "links     {} in one direction each; {:.3f} of the buffer over the busiest, {:.3f} on average\n",
      with_commas(proof.directed_links), static_cast<double>(proof.busiest_link) / proof.chunks,
      proof.directed_links == 0
          ? 0.0
          : static_cast<double>(proof.sends) / proof.chunks / static_cast<double>(proof.directed_links));
  text += fmt::format("proved    every chip ends with each gradient exactly once, {}\n",
                      proof.one_order ? "all added up in the same order" : "but not all in the same order");
  return text;
}

void plan_mesh(const MeshPlanOptions& options) {
  const comm::Topology mesh = comm::topology_from_text(options.mesh);
  const comm::Schedule schedule =
      comm::plan_schedule(mesh, parse_named<comm::Scheme>(options.schedule), workload_of(options.work));
  const comm::Verdict verdict = comm::verify(schedule);
  if (verdict.counter_example) {
    fail(ErrorCode::internal, "the schedule {} is wrong: {}", options.schedule,
         verdict.counter_example->text);
  }
  if (!options.output.empty()) replace_text(options.output, comm::schedule_text(schedule));
  print(plan_text(schedule, verdict.proof));
  if (!options.output.empty()) print(fmt::format("wrote     {}\n", printable(options.output)));
}

int verify_mesh(const std::string& path) {
  const comm::Schedule schedule = comm::read_schedule(path);
  const comm::Verdict verdict = comm::verify(schedule);
  if (!verdict.counter_example) {
    print(plan_text(schedule, verdict.proof));
    return 0;
  }
  print(fmt::format("wrong     {}: {}\n", name_of(verdict.counter_example->flaw),
                    verdict.counter_example->text));
  return 1;
}

void add_mesh_plan(CLI::App& parent) {
  const auto options = std::make_shared<MeshPlanOptions>();
  CLI::App* command = parent.add_subcommand("plan", "Plan an allreduce on a mesh, prove it and write it");
  add_topology_options(*command, options->mesh)->required();
  add_schedule_option(*command, options->schedule)->required();
  add_bytes_option(*command, options->work);
  add_cost_options(*command, options->work);
  command->add_option("-o,--output", options->output, "write the schedule to this JSON file");
  command->footer(
      fmt::format("Examples:\n"
                  "  bitrift mesh plan --mesh 4x4 --schedule rings-2d\n"
                  "  bitrift mesh plan --mesh 4x4 --dead 1,1,2x2 --schedule ring -o plan.json\n"
                  "  bitrift mesh plan --mesh 8x8 --wrap both --dead 0,3 --dead-link 4,4-4,5 "
                  "--schedule forwarding\n"
                  "  bitrift mesh plan --mesh 4x4 --dead 1,2 --schedule trees --bytes 1M\n\n"
                  "Only trees depend on --bytes and the costs of the links.\n\n{}",
                  exit_codes));
  command->callback([options] { plan_mesh(*options); });
}

void add_mesh_verify(CLI::App& parent, ExitCode& exit_code) {
  const auto path = std::make_shared<std::string>();
  CLI::App* command = parent.add_subcommand(
      "verify", "Prove that a schedule adds up every live chip's gradient exactly once at every live chip");
  command->add_option("PLAN", *path, "file of `bitrift mesh plan -o`, or of the same format")->required();
  command->footer(
      "Examples:\n"
      "  bitrift mesh verify plan.json\n\n"
      "Exit codes: 0 proved; 1 wrong, and a counter-example is printed; 2 usage or input error, 3 internal "
      "error in bitrift");
  command->callback([path, &exit_code] { exit_code.value = verify_mesh(*path); });
}

}  // namespace

void add_mesh(CLI::App& app, ExitCode& exit_code) {
  CLI::App* mesh =
      app.add_subcommand("mesh", "Plan, prove and model allreduce schedules on meshes with failed chips");
  mesh->require_subcommand(1);
  mesh->footer(
      "Exit codes: 0 success, 1 `verify` found a mistake, 2 usage or input error, 3 internal error in "
      "bitrift");
  add_mesh_plan(*mesh);
  add_mesh_verify(*mesh, exit_code);
  add_mesh_bound(*mesh);
  add_mesh_model(*mesh);
  add_mesh_table(*mesh);
}

}  // namespace bitrift::cli
