#include "spec/parallel.h"

#include "core/error.h"

namespace bitrift::record {
namespace {

// All but the stages, which follow from the ranks of a pipeline, and the mesh, which determines the ranks.
constexpr std::tuple parallel_keys = {
    Key{"kind", &Parallel::kind},
    Key{"ranks", &Parallel::ranks, Presence::defaulted},
    Key{"micro_batches", &Parallel::micro_batches, Presence::defaulted},
    Key{"semantics", &Parallel::semantics, Presence::unless_default},
    Key{"sync_on_resume", &Parallel::sync_on_resume},
    Key{"resync_every", &Parallel::resync_every, Presence::unless_default},
    Key{"shard_optimizer", &Parallel::shard_optimizer, Presence::unless_default},
    Key{"schedule", &Parallel::schedule, Presence::unless_default},
    Key{"balance", &Parallel::balance, Presence::unless_default},
    Key{"device", &Parallel::device, Presence::unless_default}};

void check_ranks(const Parallel& parallel, const std::string& where) {
  if (parallel.ranks < 1 || parallel.micro_batches < 1 || parallel.stages < 1 || parallel.resync_every < 0) {
    fail(ErrorCode::bad_input,
         "{}: ranks, stages and micro_batches must be at least 1, resync_every at least 0", where);
  }
  if (parallel.kind == ParallelKind::serial && parallel.ranks != 1) {
    fail(ErrorCode::bad_input, "{}: serial runs on 1 rank, not on {}; choose data, pipeline or hybrid", where,
         parallel.ranks);
  }
  if (parallel.kind == ParallelKind::hybrid && parallel.ranks % parallel.stages != 0) {
    fail(ErrorCode::bad_input,
         "{}: {} ranks cannot make replicas of {} stages; make ranks a multiple of stages", where,
         parallel.ranks, parallel.stages);
  }
  const int expected = parallel.kind == ParallelKind::pipeline ? parallel.ranks : 1;
  if (parallel.kind != ParallelKind::hybrid && parallel.stages != expected) {
    fail(ErrorCode::bad_input,
         "{}: {} on {} rank(s) has {} stage(s), not {}; leave stages out, or choose hybrid", where,
         name_of(parallel.kind), parallel.ranks, expected, parallel.stages);
  }
}

void check_mesh_ranks(const Parallel& parallel, const std::string& where) {
  if (!parallel.mesh) return;
  if (parallel.kind != ParallelKind::data) {
    fail(ErrorCode::bad_input, "{}: only replicas of a data run sit on a mesh, not those of a {} run", where,
         name_of(parallel.kind));
  }
  if (parallel.ranks != parallel.mesh->ranks()) {
    fail(ErrorCode::bad_input,
         "{}: {} ranks do not fit a mesh with {} live chips, of which each is a rank; leave the ranks out",
         where, parallel.ranks, parallel.mesh->ranks());
  }
  check_mesh(*parallel.mesh, where + ".mesh");
}

}  // namespace

ResumeSync Parallel::synced_on_resume() const {
  if (!replicated()) return ResumeSync::none;
  if (sync_on_resume) return *sync_on_resume;
  return semantics == Semantics::horovod ? ResumeSync::model_and_optimizer : ResumeSync::model;
}

Parallel parallel_from_json(const Json& value, const std::string& where) {
  Parallel parallel;
  value.at("kind").get_to(parallel.kind);
  const auto refuse = [&](bool useful, std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      if (!useful && value.contains(key))
        fail(ErrorCode::bad_input, "{}: a {} run has no '{}'; remove the key", where, name_of(parallel.kind),
             key);
    }
  };
  refuse(parallel.replicated(), {"semantics", "sync_on_resume", "resync_every", "shard_optimizer"});
  refuse(parallel.staged(), {"schedule", "balance", "stages"});
  refuse(parallel.kind == ParallelKind::data, {"mesh"});
  if (value.contains("mesh")) {
    parallel.mesh = mesh_from_json(value["mesh"], where + ".mesh");
    parallel.ranks = parallel.mesh->ranks();
  }
  take_keys(value, parallel, parallel_keys);
  if (parallel.kind == ParallelKind::hybrid && !value.contains("stages")) {
    fail(ErrorCode::bad_input, "{}: key 'stages' is missing; a hybrid run needs the stages of each replica",
         where);
  }
  parallel.stages = value.value("stages", parallel.kind == ParallelKind::pipeline ? parallel.ranks : 1);
  return parallel;
}

Json to_json(const Parallel& parallel) {
  Json value = Json::object();
  put_keys(value, parallel, parallel_keys);
  if (parallel.kind == ParallelKind::hybrid) value["stages"] = parallel.stages;
  if (parallel.mesh) value["mesh"] = to_json(*parallel.mesh);
  return value;
}

void check_parallel(const Parallel& parallel, int batch_size, const std::string& where) {
  check_ranks(parallel, where);
  check_mesh_ranks(parallel, where);
  const int replicas = parallel.replicas();
  if (parallel.shard_optimizer && replicas == 1) {
    fail(ErrorCode::bad_input,
         "{}: shard_optimizer shards the optimizer state over replicas, and this run has one; leave it "
         "out, or give more ranks",
         where);
  }
  const std::int64_t parts = std::int64_t{replicas} * parallel.micro_batches;
  if (batch_size % parts != 0) {
    fail(ErrorCode::bad_input,
         "{}: a batch of {} cannot be split evenly over {} replica(s) x {} micro-batch(es); make batch_size "
         "a multiple of {}",
         where, batch_size, replicas, parallel.micro_batches, parts);
  }
}

std::string refusal_of_shards(RecoveryKind kind, const Parallel& parallel) {
  const bool lives_on = kind != RecoveryKind::none && kind != RecoveryKind::relaunch;
  if (!lives_on || !parallel.shard_optimizer) return "";
  return fmt::format(
      "{}: a rank that fails takes its part of the optimizer state with it, and shard_optimizer leaves no "
      "copy with the others; choose relaunch, or drop shard_optimizer",
      name_of(kind));
}

std::string refusal_of_expansion(const RecoverySpec& spec, const Parallel& parallel) {
  if (spec.expand_after == 0) return "";
  if (spec.kind != RecoveryKind::shrink)
    return fmt::format("{} does not continue with fewer ranks; only shrink does", name_of(spec.kind));
  if (spec.batch == BatchRule::smaller)
    return "with a smaller batch, the part of the lost replica is dropped for good";
  if (parallel.mesh) return "on a mesh, the chip of a lost rank stays dead";
  return "";
}

}  // namespace bitrift::record
