// How a run is spread over ranks.
#pragma once

#include <string>

#include "record/json/json.h"

namespace bitrift::record {

/// Not part of a checkpoint: a file resumes under any other (docs/training.md, "Strategies").
struct Parallel {
  std::string kind = "serial";  ///< serial | data | pipeline | hybrid
  int ranks = 1;  ///< of the whole run: replicas (data), stages (pipeline), replicas x stages (hybrid)
  int micro_batches =
      1;           ///< the batch of a replica is split into this many equal parts, gradients accumulated
  int stages = 1;  ///< of each replica; ranks for a pipeline, 1 for serial and data
  std::string semantics = "ddp";  ///< data, hybrid: ddp | horovod
  std::string sync_on_resume =
      {};                ///< data, hybrid: none | model | model+optimizer; "": the semantics' default
  int resync_every = 0;  ///< data, hybrid: parameters of replica 0 go to all every so many steps; 0: never
  std::string schedule = "gpipe";     ///< pipeline, hybrid: gpipe | 1f1b
  std::string balance = "estimated";  ///< pipeline, hybrid: costs that the cut balances: estimated | measured
  std::string device = "cpu";         ///< cpu | cuda

  bool operator==(const Parallel&) const = default;
  [[nodiscard]] int replicas() const { return ranks / stages; }
  [[nodiscard]] bool replicated() const { return kind == "data" || kind == "hybrid"; }
  [[nodiscard]] bool staged() const { return kind == "pipeline" || kind == "hybrid"; }
  /// What replica 0 gives to all when they have loaded: sync_on_resume, or model (DistributedDataParallel's
  /// constructor does that) for ddp and model+optimizer (what Horovod's users call) for horovod. Buffers are
  /// part of the model under ddp only: under horovod they are each replica's own.
  [[nodiscard]] std::string synced_on_resume() const;
};

/// Keys of other kinds than the chosen one are refused. Throws Error(bad_input) that names the place.
/// The value is expected to have passed the schema.
[[nodiscard]] Parallel parallel_from_json(const Json& value, const std::string& where = "parallel");
/// Values that are no default and fit the kind.
[[nodiscard]] Json to_json(const Parallel& parallel);

/// Throws Error(bad_input) when ranks and stages do not fit, or a batch cannot be split over replicas and
/// micro-batches. `where` begins the message.
void check_parallel(const Parallel& parallel, int batch_size, const std::string& where);

}  // namespace bitrift::record
