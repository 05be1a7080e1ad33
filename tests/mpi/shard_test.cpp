// Runs that share their optimizer state out beside runs that do not, in one world of four ranks: the same
// losses, digests and files, byte for byte, whoever wrote the file that they resume from (CMakeLists.txt).
//
//   mpirun -n 4 mpi_shard FOLDER
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/file.h"
#include "mpi/environment.h"
#include "train/run/trainer.h"

namespace bitrift::train {
namespace {

using record::Json;
using record::ParallelKind;

constexpr int half = 3;  // steps before and after the cut; an epoch has five

// In float32 the second layer is large enough to be sent by itself (ParameterExchange).
record::TrainingSpec spec_of(const Json& optimizer, const std::string& precision) {
  const Json spec = {{"model", {{"name", "mlp"}, {"hidden", {280, 260, 12}}, {"norm", "batch"}}},
                     {"data", {{"name", "digits"}, {"train_samples", 60}, {"test_samples", 12}}},
                     {"optimizer", optimizer},
                     {"precision", precision},
                     {"batch_size", 12},
                     {"epochs", 2},
                     {"seed", 7}};
  return record::training_spec_from_text(spec.dump());
}

std::vector<std::pair<std::string, Json>> optimizers() {
  return {{"sgd", {{"name", "sgd"}, {"learning_rate", 0.05}}},
          {"momentum",
           {{"name", "sgd"},
            {"learning_rate", 0.05},
            {"momentum", 0.9},
            {"nesterov", true},
            {"weight_decay", 0.0005},
            {"clip_norm", 0.5}}},
          {"adam", {{"name", "adam"}, {"learning_rate", 0.002}, {"epsilon", 1e-6}, {"weight_decay", 0.01}}},
          {"adamw", {{"name", "adamw"}, {"learning_rate", 0.002}, {"epsilon", 1e-6}, {"clip_norm", 0.5}}}};
}

std::vector<std::pair<std::string, record::Parallel>> strategies() {
  record::Parallel mesh{.kind = ParallelKind::data, .ranks = 4};
  mesh.mesh.emplace().topology = comm::topology_from_text({"2x2", "neither", {}, {}});
  return {{"data2", {.kind = ParallelKind::data, .ranks = 2}},
          {"data3", {.kind = ParallelKind::data, .ranks = 3, .micro_batches = 2}},
          {"data4", {.kind = ParallelKind::data, .ranks = 4}},
          {"horovod2", {.kind = ParallelKind::data, .ranks = 2, .semantics = record::Semantics::horovod}},
          {"hybrid2x2", {.kind = ParallelKind::hybrid, .ranks = 4, .micro_batches = 2, .stages = 2}},
          {"mesh2x2", mesh}};
}

class Shards {
 public:
  Shards(const mpi::Communicator& world, std::filesystem::path folder)
      : world_(world), folder_(std::move(folder)) {
    for (int ranks = 1; ranks <= world.size(); ++ranks)
      groups_.push_back(world.split(world.rank() < ranks ? 0 : 1, 0));
    data_ = load_runnable(spec_of(optimizers()[0].second, "fp32"), {});
  }

  // Failures of this rank.
  int run() {
    const auto parallel3 = strategies()[1].second;
    for (const auto& [name, optimizer] : optimizers()) {
      if (name != "adamw") compare(name, spec_of(optimizer, "fp32"), parallel3);
    }
    for (const auto& [strategy, parallel] : strategies())
      compare("adamw " + strategy, spec_of(optimizers()[3].second, "fp32"), parallel);
    for (const char* precision : {"fp64", "bf16", "fp16", "autocast-fp16"}) {
      for (const std::size_t optimizer : {std::size_t{1}, std::size_t{3}})
        compare(fmt::format("{} {}", optimizers()[optimizer].first, precision),
                spec_of(optimizers()[optimizer].second, precision), parallel3);
    }
    return failures_;
  }

 private:
  [[nodiscard]] std::filesystem::path file(const char* stem) const {
    return folder_ / (std::string(stem) + ".h5");
  }

  void expect(bool holds, const std::string& what) {
    if (!holds) ++failures_;
    if (world_.rank() == 0 || !holds) fmt::print("{:<6} {}\n", holds ? "ok" : "FAILED", what);
    std::fflush(stdout);
  }

  Json go(Trainer& trainer, bool ddp) {
    RunOptions options;
    options.steps = half;
    options.check_replicas = ddp;
    record::RunResult result = trainer.run(options);
    result.seconds = 0;
    return to_json(result);
  }

  void compare(const std::string& name, const record::TrainingSpec& spec, const record::Parallel& parallel) {
    const mpi::Communicator& group = groups_[static_cast<std::size_t>(parallel.ranks - 1)];
    if (world_.rank() < parallel.ranks) compare_in(group, name, spec, parallel);
    world_.barrier();
  }

  void compare_in(const mpi::Communicator& group, const std::string& name, const record::TrainingSpec& spec,
                  record::Parallel parallel) {
    // Under horovod each replica keeps statistics of its own.
    const bool ddp = parallel.semantics == record::Semantics::ddp;
    Json plain, sharded, resumed;
    {
      Trainer trainer(spec, parallel, group, true, data_);
      plain.push_back(go(trainer, ddp));
      trainer.save(file("half"), {});
      plain.push_back(go(trainer, ddp));
      trainer.save(file("whole"), {});
    }
    parallel.shard_optimizer = true;
    {
      Trainer trainer(spec, parallel, group, true, data_);
      trainer.save(file("shard-begin"), {});
      sharded.push_back(go(trainer, ddp));
      trainer.save(file("shard-half"), {});
      trainer.save(file("shard-shared"), {}, {.writer = SaveWriter::shared});
      trainer.save(file("shard-async"), {}, {.mode = SaveMode::async});
      sharded.push_back(go(trainer, ddp));
      trainer.save(file("shard-whole"), {});
    }
    {
      Trainer trainer(spec, parallel, group, false, data_);
      trainer.load({file("half")});
      resumed = go(trainer, ddp);
      trainer.save(file("shard-rest"), {});
    }
    {
      // The other way round, and from before the first step.
      parallel.shard_optimizer = false;
      Trainer trainer(spec, parallel, group, false, data_);
      trainer.load({file("shard-half")});
      (void)go(trainer, ddp);
      trainer.save(file("plain-rest"), {});
      trainer.load({file("shard-begin")});
      (void)go(trainer, ddp);
      trainer.save(file("plain-half"), {});
    }
    if (group.rank() != 0) return;
    expect(sharded == plain, name + ": results");
    expect(resumed == plain[1], name + ": result of the resumed run");
    const std::string at_half = read_text(file("half")), whole = read_text(file("whole"));
    for (const char* stem : {"shard-half", "shard-shared", "shard-async", "plain-half"})
      expect(read_text(file(stem)) == at_half, name + ": " + stem);
    for (const char* stem : {"shard-whole", "shard-rest", "plain-rest"})
      expect(read_text(file(stem)) == whole, name + ": " + stem);
  }

  const mpi::Communicator& world_;
  std::filesystem::path folder_;
  std::vector<mpi::Communicator> groups_;
  std::shared_ptr<const nn::Dataset> data_;
  int failures_ = 0;
};

}  // namespace
}  // namespace bitrift::train

int main(int count, char** words) {
  if (count != 2) {
    std::fprintf(stderr, "usage: mpirun -n 4 %s FOLDER\n", words[0]);
    return 2;
  }
  bitrift::mpi::Environment environment;
  try {
    bitrift::train::prepare_libtorch(1);
    bitrift::train::Shards shards(environment.world(), words[1]);
    const int failures = shards.run();
    environment.finalize();
    return failures == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", environment.world().rank(), error.what());
    environment.abort(3);
  }
}
