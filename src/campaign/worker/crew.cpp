#include "campaign/worker/crew.h"

#include "campaign/plan/ends.h"

namespace bitrift::campaign {
namespace {

// A trial reads only what was altered, the rest is in memory; every so often one reads the whole file, and
// always when more than values was altered.
constexpr std::size_t full_read_every = 32;

}  // namespace

record::RunRequest run_request(Crew& crew, bool early_end,
                               const std::optional<record::PropagationSpec>& propagation) {
  const record::TrialSpec& spec = crew.current.spec;
  record::RunRequest run;
  run.id = spec.id.text();
  run.checkpoint = crew.copy->path().string();
  run.epochs = spec.epochs;
  run.order_seed = spec.order_seed;
  run.drill = spec.drill;
  run.replicas = spec.replicas;
  run.process_faults = spec.faults.processes();
  run.recovery = spec.recovery;
  if (spec.kind == record::TrialKind::trial) {
    const bool audit = crew.trials++ % full_read_every == 0;
    if (!audit && spec.plane == record::Plane::value) run.altered = crew.current.altered;
    // A process that joined after the golden run does not know that run, and whether a worker has such
    // processes must not show in a row: where ranks fail, trials go to their end.
    run.early_end = early_end && !spec.faults.of_processes();
    if (propagation && propagation->wants_draw(spec.id.draw)) run.propagation = propagation;
  }
  run.golden = is_golden_run({spec.kind, spec.id});
  if (run.golden) run.propagation = propagation;
  return run;
}

}  // namespace bitrift::campaign
