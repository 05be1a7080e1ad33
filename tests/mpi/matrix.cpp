// Trains one model under every strategy and optimizer, in one world of four ranks (CMakeLists.txt,
// tools/matrix):
//   N steps + resume + N steps = 2N steps, byte for byte, replicas equal after every step;
//   pipelines and serial runs of the same micro-batches agree to the bit, hybrid and data-parallel runs too.
//
//   mpirun -n 4 mpi_matrix MODEL small|full FOLDER [cpu|cuda]
#include <cstdio>
#include <filesystem>
#include <map>
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

constexpr int half = 3;  // steps before and after the cut; an epoch has four

struct Case {
  std::string name;
  record::Parallel parallel;
  std::string same_as;  // a case whose state must be the same
};

bool is_transformer(const std::string& name) { return name == "gpt" || name == "bert" || name == "llama"; }

Json model_json(const std::string& name, bool small) {
  if (name == "mlp") return {{"name", name}, {"hidden", {24, 16, 12}}, {"norm", "batch"}};
  if (name == "lenet") return {{"name", name}};
  if (is_transformer(name)) {
    Json model = {{"name", name},
                  {"layers", small ? 3 : 6},
                  {"heads", 2},
                  {"width", small ? 16 : 128},
                  {"context", small ? 16 : 64}};
    model.update(name == "llama" ? Json{{"kv_heads", 1}} : Json{{"dropout", 0.1}});
    return model;
  }
  Json model = {{"name", name}, {"width", small ? "small" : "full"}};
  if (name == "resnet18") model["stem"] = "cifar";
  return model;
}

Json data_json(const std::string& name) {
  if (is_transformer(name)) return {{"name", "jargon"}, {"train_samples", 64}, {"test_samples", 32}};
  Json data = {{"name", "digits"}, {"train_samples", 64}, {"test_samples", 32}};
  if (name == "alexnet") data["resize"] = 64;
  if (name.starts_with("vgg") || name == "googlenet" || name == "resnet50") data["resize"] = 32;
  if (name == "resnet20") data.update({{"crop_padding", 1}, {"flip", true}, {"prefetch", 2}});
  return data;
}

record::TrainingSpec spec_of(const std::string& model, bool small, const std::string& optimizer) {
  Json update = {{"name", "sgd"},
                 {"learning_rate", 0.01},
                 {"momentum", 0.9},
                 {"nesterov", true},
                 {"weight_decay", 0.0005}};
  Json schedule = {{"name", "plateau"}, {"patience", 0}, {"threshold", 0.5}};
  if (optimizer == "adamw") {
    update = {{"name", "adamw"}, {"learning_rate", 0.002}, {"clip_norm", 0.5}};
    schedule = {{"name", "cosine"}, {"warmup_steps", 2}};
  }
  const Json spec = {{"model", model_json(model, small)},
                     {"data", data_json(model)},
                     {"optimizer", update},
                     {"schedule", schedule},
                     {"batch_size", 16},
                     {"epochs", 3},
                     {"seed", 7}};
  return record::training_spec_from_text(spec.dump());
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add = [&all](std::string name, const record::Parallel& parallel, std::string same_as = "") {
    all.push_back({std::move(name), parallel, std::move(same_as)});
  };
  for (const int micro : {1, 2, 4}) add(fmt::format("serial/{}", micro), {.micro_batches = micro});
  add("data2", {.kind = record::ParallelKind::data, .ranks = 2});
  add("data2/2", {.kind = record::ParallelKind::data, .ranks = 2, .micro_batches = 2});
  add("data4", {.kind = record::ParallelKind::data, .ranks = 4});
  record::Parallel mesh{.kind = record::ParallelKind::data, .ranks = 4};
  mesh.mesh.emplace().topology = comm::topology_from_text({"2x2", "neither", {}, {}});
  add("mesh2x2", mesh);
  add("horovod2", {.kind = record::ParallelKind::data, .ranks = 2, .semantics = record::Semantics::horovod});
  for (const auto schedule :
       {record::PipelineSchedule::gpipe, record::PipelineSchedule::one_forward_one_backward}) {
    for (const int stages : {2, 4}) {
      add(fmt::format("pipeline{}/{}", stages, name_of(schedule)),
          {.kind = record::ParallelKind::pipeline,
           .ranks = stages,
           .micro_batches = 4,
           .stages = stages,
           .schedule = schedule},
          "serial/4");
    }
    add(fmt::format("hybrid2x2/{}", name_of(schedule)),
        {.kind = record::ParallelKind::hybrid,
         .ranks = 4,
         .micro_batches = 2,
         .stages = 2,
         .schedule = schedule},
        "data2/2");
  }
  return all;
}

class Matrix {
 public:
  Matrix(const mpi::Communicator& world, std::string model, bool small, std::filesystem::path folder,
         std::string device)
      : world_(world),
        model_(std::move(model)),
        small_(small),
        folder_(std::move(folder)),
        device_(std::move(device)) {
    for (int ranks = 1; ranks <= world.size(); ++ranks)
      groups_.push_back(world.split(world.rank() < ranks ? 0 : 1, 0));
  }

  // Failures of this rank.
  int run() {
    for (const std::string optimizer : {"sgd", "adamw"}) {
      digests_.clear();
      for (Case one : cases()) {
        one.parallel.device = parse_named<record::DeviceKind>(device_);
        const mpi::Communicator& group = groups_[static_cast<std::size_t>(one.parallel.ranks - 1)];
        if (world_.rank() < one.parallel.ranks) check(one, optimizer, group);
        world_.barrier();
      }
    }
    return failures_;
  }

 private:
  static record::RunResult go(Trainer& trainer, const Case& one) {
    RunOptions options;
    options.steps = half;
    // Under horovod each replica keeps statistics of its own.
    options.check_replicas = one.parallel.semantics == record::Semantics::ddp && one.parallel.replicas() > 1;
    return trainer.run(options);
  }

  void expect(bool holds, const Case& one, const std::string& optimizer, const std::string& what) {
    if (!holds) ++failures_;
    if (world_.rank() == 0 || !holds) {
      fmt::print("{:<10} {:<6} {:<16} {:<6} {}\n", model_, optimizer, one.name, holds ? "ok" : "FAILED",
                 what);
      std::fflush(stdout);
    }
  }

  void check(const Case& one, const std::string& optimizer, const mpi::Communicator& group) {
    const record::TrainingSpec spec = spec_of(model_, small_, optimizer);
    const auto file = [&](const char* stem) { return folder_ / (model_ + "-" + stem + ".h5"); };
    std::vector<std::string> straight, resumed;
    {
      Trainer trainer(spec, one.parallel, group, true);
      (void)go(trainer, one);
      trainer.save(file("half"), {});
      straight = go(trainer, one).replica_digests;
      trainer.save(file("whole"), {});
    }
    {
      Trainer trainer(spec, one.parallel, group, false);
      trainer.load({file("half")});
      resumed = go(trainer, one).replica_digests;
      trainer.save(file("rest"), {});
    }
    if (group.rank() != 0) return;
    expect(resumed == straight, one, optimizer, "resumed as straight: " + straight[0].substr(0, 12));
    expect(read_text(file("rest")) == read_text(file("whole")), one, optimizer, "files");
    digests_[one.name] = straight[0];
    if (!one.same_as.empty())
      expect(digests_.at(one.same_as) == straight[0], one, optimizer, "same as " + one.same_as);
  }

  const mpi::Communicator& world_;
  std::string model_;
  bool small_;
  std::filesystem::path folder_;
  std::string device_;
  std::vector<mpi::Communicator> groups_;
  std::map<std::string, std::string> digests_;
  int failures_ = 0;
};

}  // namespace
}  // namespace bitrift::train

int main(int count, char** words) {
  const std::string device = count == 5 ? words[4] : "cpu";
  if (count < 4 || count > 5 || (device != "cpu" && device != "cuda")) {
    std::fprintf(stderr, "usage: mpirun -n 4 %s MODEL small|full FOLDER [cpu|cuda]\n", words[0]);
    return 2;
  }
  bitrift::mpi::Environment environment;
  try {
    bitrift::train::prepare_libtorch(1);
    bitrift::train::Matrix matrix(environment.world(), words[1], std::string(words[2]) == "small", words[3],
                                  device);
    const int failures = matrix.run();
    environment.finalize();
    return failures == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", environment.world().rank(), error.what());
    environment.abort(3);
  }
}
