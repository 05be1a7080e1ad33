#include "parallel_options.h"

#include "core/error.h"
#include "mpi/environment.h"

namespace bitrift::cli {

void add_parallel_options(CLI::App* command, ParallelArguments& arguments) {
  const CLI::Range positive(1, 65536);
  command
      ->add_option(
          "--parallel", arguments.kind,
          "How to distribute the work over ranks (default: as in the spec; resume and serve: serial)")
      ->check(CLI::IsMember({"serial", "data", "pipeline", "hybrid"}));
  command
      ->add_option("--ranks", arguments.ranks,
                   "Number of replicas (data), stages (pipeline) or replicas x stages (hybrid)")
      ->check(positive);
  command->add_option("--stages", arguments.stages, "hybrid: number of stages in each replica")
      ->check(positive);
  command
      ->add_option("--micro-batches", arguments.micro_batches,
                   "Number of equal parts of a replica's batch (default: 1)")
      ->check(positive);
  command
      ->add_option("--semantics", arguments.semantics,
                   "data, hybrid: library whose behavior to follow (default: ddp)")
      ->check(CLI::IsMember({"ddp", "horovod"}));
  command
      ->add_option("--sync-on-resume", arguments.sync_on_resume,
                   "data, hybrid: what replica 0 sends to all after loading (default: model with ddp, "
                   "model+optimizer with horovod)")
      ->check(CLI::IsMember({"none", "model", "model+optimizer"}));
  command
      ->add_option(
          "--resync-every", arguments.resync_every,
          "data, hybrid: send the parameters of replica 0 to all every this many steps (default: 0, never)")
      ->check(CLI::Range(0, 1'000'000'000));
  command->add_option("--schedule", arguments.schedule, "pipeline, hybrid: order of passes (default: gpipe)")
      ->check(CLI::IsMember({"gpipe", "1f1b"}));
  command
      ->add_option("--balance", arguments.balance,
                   "pipeline, hybrid: costs by which to balance stages (default: estimated)")
      ->check(CLI::IsMember({"estimated", "measured"}));
  command
      ->add_option("--device", arguments.device,
                   "Device to compute on; with cuda, cards are assigned to ranks in turn (default: cpu)")
      ->check(CLI::IsMember({"cpu", "cuda"}));
}

record::Parallel chosen_parallel(const ParallelArguments& arguments, record::Parallel parallel) {
  if (arguments.kind && *arguments.kind != parallel.kind) {
    parallel = {.kind = *arguments.kind, .device = parallel.device};
    if (parallel.kind != "serial" && !arguments.ranks) {
      parallel.ranks = mpi::launched_ranks();
      if (parallel.ranks == 0) fail(ErrorCode::bad_input, "--parallel {} needs --ranks", parallel.kind);
    }
  }
  if (arguments.ranks) parallel.ranks = *arguments.ranks;
  if (parallel.kind == "pipeline") parallel.stages = parallel.ranks;
  if (arguments.stages) parallel.stages = *arguments.stages;
  if (parallel.kind == "hybrid" && !arguments.stages && parallel.stages == 1)
    fail(ErrorCode::bad_input, "--parallel hybrid needs --stages, the stages of each replica");
  if (arguments.micro_batches) parallel.micro_batches = *arguments.micro_batches;
  const auto take = [&](const auto& option, auto& into, const char* name, bool useful) {
    if (!option) return;
    if (!useful)
      fail(ErrorCode::bad_input, "{} has no meaning for a {} run; leave it out", name, parallel.kind);
    into = *option;
  };
  take(arguments.semantics, parallel.semantics, "--semantics", parallel.replicated());
  take(arguments.sync_on_resume, parallel.sync_on_resume, "--sync-on-resume", parallel.replicated());
  take(arguments.resync_every, parallel.resync_every, "--resync-every", parallel.replicated());
  take(arguments.schedule, parallel.schedule, "--schedule", parallel.staged());
  take(arguments.balance, parallel.balance, "--balance", parallel.staged());
  take(arguments.device, parallel.device, "--device", true);
  return parallel;
}

}  // namespace bitrift::cli
