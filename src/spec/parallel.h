// How a run is distributed over ranks.
#pragma once

#include <optional>
#include <string>

#include "core/named_enum.h"
#include "record/json/json.h"
#include "record/recovery.h"
#include "spec/mesh_spec.h"

namespace bitrift::record {

enum class ParallelKind { serial, data, pipeline, hybrid };
constexpr EnumNames<4> names_of(ParallelKind) {
  return {"strategy", {"serial", "data", "pipeline", "hybrid"}};
}

/// The library whose way of combining replicas is followed.
enum class Semantics { ddp, horovod };
constexpr EnumNames<2> names_of(Semantics) { return {"data-parallel semantics", {"ddp", "horovod"}}; }

/// What replica 0 gives to all replicas when they have loaded.
enum class ResumeSync { none, model, model_and_optimizer };
constexpr EnumNames<3> names_of(ResumeSync) {
  return {"value of sync_on_resume", {"none", "model", "model+optimizer"}};
}

/// Order of the passes of a pipeline.
enum class PipelineSchedule { gpipe, one_forward_one_backward };
constexpr EnumNames<2> names_of(PipelineSchedule) { return {"pipeline schedule", {"gpipe", "1f1b"}}; }

/// Costs that the cut into stages balances.
enum class Balance { estimated, measured };
constexpr EnumNames<2> names_of(Balance) { return {"kind of cost to balance", {"estimated", "measured"}}; }

/// Where ranks compute.
enum class DeviceKind { cpu, cuda };
constexpr EnumNames<2> names_of(DeviceKind) { return {"device", {"cpu", "cuda"}}; }

/// Not part of a checkpoint: a file can be resumed under any other (docs/training.md, "Strategies").
struct Parallel {
  ParallelKind kind = ParallelKind::serial;
  int ranks = 1;  ///< number of ranks of the whole run: replicas (data), stages (pipeline), replicas x stages
                  ///< (hybrid)
  int micro_batches =
      1;           ///< the batch of a replica is split into this many equal parts, gradients accumulated
  int stages = 1;  ///< number of stages of each replica; ranks for a pipeline, 1 for serial and data
  Semantics semantics = Semantics::ddp;           ///< data, hybrid
  std::optional<ResumeSync> sync_on_resume = {};  ///< data, hybrid; absent: the semantics' default
  int resync_every = 0;  ///< data, hybrid: replica 0 sends its parameters to all after this many steps, again
                         ///< and again; 0: never
  bool shard_optimizer = false;  ///< data, hybrid: each replica holds a part of the optimizer's state
  PipelineSchedule schedule = PipelineSchedule::gpipe;  ///< pipeline, hybrid
  Balance balance = Balance::estimated;                 ///< pipeline, hybrid
  DeviceKind device = DeviceKind::cpu;
  std::optional<MeshSpec> mesh = {};  ///< data: ranks are its live chips; absent: gradients travel in any way

  bool operator==(const Parallel&) const = default;
  [[nodiscard]] int replicas() const { return ranks / stages; }
  [[nodiscard]] bool replicated() const { return kind == ParallelKind::data || kind == ParallelKind::hybrid; }
  [[nodiscard]] bool staged() const { return kind == ParallelKind::pipeline || kind == ParallelKind::hybrid; }
  /// What replica 0 gives to all replicas when they have loaded: sync_on_resume, or model
  /// (DistributedDataParallel's constructor does that) for ddp and model+optimizer (what Horovod's users
  /// call) for horovod. Buffers are part of the model under ddp only: under horovod they are each replica's
  /// own.
  [[nodiscard]] ResumeSync synced_on_resume() const;
};

/// Keys of other kinds than the chosen one are refused. Throws Error(bad_input) that names the place.
/// The value is expected to have passed the schema.
[[nodiscard]] Parallel parallel_from_json(const Json& value, const std::string& where = "parallel");
/// Values that differ from their defaults and fit the kind.
[[nodiscard]] Json to_json(const Parallel& parallel);

/// Throws Error(bad_input) when ranks, stages and mesh do not fit, a batch cannot be split over replicas and
/// micro-batches, one replica is to shard its optimizer state, or nothing can be planned for the mesh.
/// `where` begins the message.
void check_parallel(const Parallel& parallel, int batch_size, const std::string& where);

/// Why a run with a sharded optimizer state cannot recover in this way; "" if it can, or is not sharded.
/// Begins with the name of the kind.
[[nodiscard]] std::string refusal_of_shards(RecoveryKind kind, const Parallel& parallel);
/// Why a run cannot expand again after it has lost ranks, as `spec` asks; "" if it can, or is not asked to.
[[nodiscard]] std::string refusal_of_expansion(const RecoverySpec& spec, const Parallel& parallel);

}  // namespace bitrift::record
