#include "parallel_options.h"

#include <fmt/ranges.h>

#include "core/error.h"
#include "mpi/environment.h"
#include "options/one_of.h"
#include "options/topology_options.h"
#include "options/whole_number.h"

namespace bitrift::cli {
namespace {

using record::ParallelKind;

// What an option says: a number, or the name of a value.
void put(int value, int& into) { into = value; }
template <NamedEnum E>
void put(const std::string& name, E& into) {
  into = parse_named<E>(name);
}
template <NamedEnum E>
void put(const std::string& name, std::optional<E>& into) {
  into = parse_named<E>(name);
}

// What --mesh says, and before anything else that ranks are replicas on its live chips.
void choose_mesh(const ParallelArguments& arguments, record::Parallel& parallel) {
  const comm::TopologyText& mesh = arguments.mesh;
  const bool described =
      !mesh.dead.empty() || !mesh.dead_links.empty() || mesh.wrap != comm::TopologyText().wrap;
  if (mesh.mesh.empty()) {
    if (described)
      fail(ErrorCode::bad_input, "--wrap, --dead and --dead-link describe a mesh; give --mesh too");
    return;
  }
  if (parallel.kind == ParallelKind::serial && !arguments.kind) parallel.kind = ParallelKind::data;
  if (parallel.kind != ParallelKind::data) {
    fail(ErrorCode::bad_input, "--mesh has no meaning for a {} run; leave it out, or give --parallel data",
         name_of(parallel.kind));
  }
  parallel.mesh.emplace().topology = comm::topology_from_text(mesh);
  parallel.ranks = parallel.mesh->ranks();
}

// --schedule is the order of passes of a pipeline, or says how gradients travel on a mesh.
void choose_schedule(const std::string& name, record::Parallel& parallel) {
  if (parallel.mesh) {
    const auto scheme = find_named<comm::Scheme>(name);
    if (!scheme)
      fail(ErrorCode::bad_input, "--schedule {} is for stages; on a mesh give one of {}", name,
           fmt::join(planned_scheme_names(), ", "));
    parallel.mesh->schedule = *scheme;
    return;
  }
  const auto order = find_named<record::PipelineSchedule>(name);
  if (!order) fail(ErrorCode::bad_input, "--schedule {} is for a mesh; give --mesh too", name);
  if (!parallel.staged())
    fail(ErrorCode::bad_input, "--schedule has no meaning for a {} run; leave it out",
         name_of(parallel.kind));
  parallel.schedule = *order;
}

}  // namespace

void add_parallel_options(CLI::App* command, ParallelArguments& arguments, const std::string& usual) {
  const CLI::Validator positive = whole_number(1, 65536);
  command
      ->add_option("--parallel", arguments.kind,
                   "How to distribute the work over ranks (default: " + usual + ")")
      ->check(one_of<ParallelKind>());
  command
      ->add_option("--ranks", arguments.ranks,
                   "Number of replicas (data), stages (pipeline) or replicas x stages (hybrid)")
      ->check(positive)
      ->type_name("N");
  command->add_option("--stages", arguments.stages, "hybrid: number of stages in each replica")
      ->check(positive)
      ->type_name("N");
  command
      ->add_option("--micro-batches", arguments.micro_batches,
                   "Number of equal parts of a replica's batch (default: 1)")
      ->check(positive)
      ->type_name("N");
  command
      ->add_option("--semantics", arguments.semantics,
                   "data, hybrid: library whose behavior to follow (default: ddp)")
      ->check(one_of<record::Semantics>());
  command
      ->add_option(
          "--sync-on-resume", arguments.sync_on_resume,
          "data, hybrid: what replica 0 sends to the other replicas after loading (default: model with ddp, "
          "model+optimizer with horovod)")
      ->check(one_of<record::ResumeSync>());
  command
      ->add_option(
          "--resync-every", arguments.resync_every,
          "data, hybrid: copy the parameters of replica 0 to all replicas every N steps (default: 0, never)")
      ->check(whole_number(0, 1'000'000'000))
      ->type_name("N");
  command->add_flag("--shard-optimizer", arguments.shard_optimizer,
                    "data, hybrid: each replica holds the optimizer state of a part of the parameters (ZeRO "
                    "stage 1); results are the same");
  std::vector<std::string> schedules = words_of<record::PipelineSchedule>();
  const std::vector<std::string> schemes = planned_scheme_names();
  schedules.insert(schedules.end(), schemes.begin(), schemes.end());
  command
      ->add_option(
          "--schedule", arguments.schedule,
          "pipeline, hybrid: order of passes (default: gpipe); data with --mesh: how gradients travel "
          "(default: trees)")
      ->check(CLI::IsMember(schedules));
  command
      ->add_option("--balance", arguments.balance,
                   "pipeline, hybrid: costs by which to balance stages (default: estimated)")
      ->check(one_of<record::Balance>());
  command
      ->add_option("--device", arguments.device,
                   "Device to compute on; with cuda, cards are assigned to ranks in turn (default: cpu)")
      ->check(one_of<record::DeviceKind>());
  add_topology_options(*command, arguments.mesh)
      ->description(
          "data: rows and columns of a mesh of chips, such as 4x4, on which each live chip is a rank");
}

record::Parallel chosen_parallel(const ParallelArguments& arguments, record::Parallel parallel) {
  if (arguments.kind && *arguments.kind != name_of(parallel.kind)) {
    parallel = {.kind = parse_named<ParallelKind>(*arguments.kind), .device = parallel.device};
    if (parallel.kind != ParallelKind::serial && !arguments.ranks && arguments.mesh.mesh.empty()) {
      parallel.ranks = mpi::launched_ranks();
      if (parallel.ranks == 0)
        fail(ErrorCode::bad_input, "--parallel {} needs --ranks", name_of(parallel.kind));
    }
  }
  choose_mesh(arguments, parallel);
  if (arguments.ranks) parallel.ranks = *arguments.ranks;
  if (parallel.kind == ParallelKind::pipeline) parallel.stages = parallel.ranks;
  if (arguments.stages) parallel.stages = *arguments.stages;
  if (parallel.kind == ParallelKind::hybrid && !arguments.stages && parallel.stages == 1)
    fail(ErrorCode::bad_input, "--parallel hybrid needs --stages, the stages of each replica");
  if (arguments.micro_batches) parallel.micro_batches = *arguments.micro_batches;
  const auto check = [&](const char* name, bool useful) {
    if (!useful)
      fail(ErrorCode::bad_input, "{} has no meaning for a {} run; leave it out", name,
           name_of(parallel.kind));
  };
  const auto take = [&](const auto& option, auto& into, const char* name, bool useful) {
    if (!option) return;
    check(name, useful);
    put(*option, into);
  };
  take(arguments.semantics, parallel.semantics, "--semantics", parallel.replicated());
  take(arguments.sync_on_resume, parallel.sync_on_resume, "--sync-on-resume", parallel.replicated());
  take(arguments.resync_every, parallel.resync_every, "--resync-every", parallel.replicated());
  if (arguments.shard_optimizer) {
    check("--shard-optimizer", parallel.replicated());
    parallel.shard_optimizer = true;
  }
  if (arguments.schedule) choose_schedule(*arguments.schedule, parallel);
  take(arguments.balance, parallel.balance, "--balance", parallel.staged());
  take(arguments.device, parallel.device, "--device", true);
  return parallel;
}

}  // namespace bitrift::cli
