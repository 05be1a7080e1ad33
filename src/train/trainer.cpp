#include "train/trainer.h"

#include <cmath>
#include <cstring>
#include <set>
#include <sstream>

#include "core/file.h"
#include "nn/dataset.h"
#include "nn/model.h"
#include "train/checkpoint.h"
#include "train/data_order.h"
#include "train/trainer_state.h"

namespace bitrift::train {
namespace {

nn::ModelDescription describe_model(const record::TrainingSpec& spec, const nn::Dataset& data) {
  return {.name = spec.model.name,
          .hidden = {spec.model.hidden.begin(), spec.model.hidden.end()},
          .batch_norm = spec.model.norm == "batch",
          .input = data.image_shape(),
          .classes = data.classes};
}

nn::Dataset load_data(const record::TrainingSpec& spec) {
  nn::Dataset data = nn::load_dataset(spec.data.name, spec.data.path);
  if (data.train.size() < spec.batch_size) {
    fail(ErrorCode::bad_input,
         "batch_size is {}, but data set {} has {} training samples; choose a smaller batch_size",
         spec.batch_size, spec.data.name, data.train.size());
  }
  return data;
}

int stages_of(const record::Parallel& parallel) { return parallel.kind == "pipeline" ? parallel.ranks : 1; }

nn::Stage build_stage(const record::TrainingSpec& spec, const nn::Dataset& data,
                      const record::Parallel& parallel, int rank) {
  auto layers = nn::make_layers(describe_model(spec, data));
  const auto cuts = nn::cut_layers(nn::estimated_costs(layers), stages_of(parallel));
  const auto [first, last] = cuts[parallel.kind == "pipeline" ? static_cast<std::size_t>(rank) : 0];
  return {std::move(layers), first, last, spec.seed};
}

void check_world(const record::Parallel& parallel, int batch_size, int world) {
  record::check_parallel(parallel, batch_size, "parallel");
  if (parallel.ranks != world) {
    fail(ErrorCode::bad_input,
         "parallel: {} asks for {} rank(s), and MPI started {}; make --ranks and mpirun -n agree",
         parallel.kind, parallel.ranks, world);
  }
}

}  // namespace

TrainerState::TrainerState(record::TrainingSpec spec_, record::Parallel parallel_,
                           mpi::Communicator communicator_, nn::Dataset data_)
    : spec(std::move(spec_)),
      parallel(std::move(parallel_)),
      communicator(std::move(communicator_)),
      data(std::move(data_)),
      session(build_stage(spec, data, parallel, communicator.rank()), spec) {
  if (staged()) {
    strategy = make_pipeline(session.stage(), communicator, parallel.micro_batches);
  } else {
    strategy = make_replicated(session.stage(), communicator, std::make_unique<OrderedReducer>(communicator),
                               parallel.micro_batches);
  }
}

std::span<const std::int64_t> TrainerState::next_batch() {
  const std::pair wanted(session.seed, session.progress.epoch);
  if (order_of_ != wanted) {
    order_ = epoch_order(session.seed, session.progress.epoch, data.train.size());
    order_of_ = wanted;
  }
  return std::span<const std::int64_t>(order_).subspan(static_cast<std::size_t>(session.progress.cursor),
                                                       static_cast<std::size_t>(spec.batch_size));
}

BatchResult TrainerState::step(std::span<const std::int64_t> batch) {
  session.drop_gradients();
  const BatchResult result = strategy->gradients(data.train, batch);
  if (!std::isfinite(result.loss)) return result;
  Progress& progress = session.progress;
  session.optimizer().step(progress.learning_rate);
  progress.step += 1;
  progress.cursor += spec.batch_size;
  progress.epoch_loss_sum += result.loss;
  progress.epoch_correct += result.correct;
  return result;
}

std::vector<std::string> TrainerState::digests() {
  std::vector<std::string> lines = session.digest_lines(!staged() || communicator.rank() == 0);
  if (!staged()) return communicator.allgather(state_digest(std::move(lines)));
  std::string text;
  for (const std::string& line : lines) text += line;
  lines.clear();
  for (const std::string& part : communicator.allgather(text)) {
    std::istringstream stream(part);
    for (std::string line; std::getline(stream, line);) lines.push_back(line + "\n");
  }
  return {state_digest(std::move(lines))};
}

std::vector<record::Evaluation> TrainerState::evaluate(const record::Evaluation& training) {
  const TestResult mine = strategy->evaluate(data.test);
  std::vector<TestResult> all(static_cast<std::size_t>(replicas()), mine);
  if (!staged()) communicator.allgather_equal(&mine, sizeof mine, all.data());
  std::vector<record::Evaluation> result;
  for (const TestResult& test : all) {
    result.push_back(training);
    result.back().test_loss = test.loss;
    result.back().test_accuracy = test.accuracy;
  }
  return result;
}

record::TrainingSpec read_checkpoint_spec(const std::filesystem::path& path) {
  return checkpoint_spec(ckpt::Reader(path));
}

void check_runnable(const record::TrainingSpec& spec, const record::Parallel& parallel) {
  check_world(parallel, spec.batch_size, parallel.ranks);
  const nn::Dataset data = load_data(spec);
  const auto layers = nn::make_layers(describe_model(spec, data));
  (void)nn::cut_layers(nn::estimated_costs(layers), stages_of(parallel));
}

void prepare_libtorch(int threads) {
  torch::set_num_threads(threads);
  if (at::get_num_interop_threads() != 1) at::set_num_interop_threads(1);
  at::globalContext().setDeterministicAlgorithms(true, false);
  // Deterministic mode would also fill every new tensor with NaN, to show reads before writes; that costs
  // time only.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

record::Json libtorch_environment() {
  return {{"libtorch", TORCH_VERSION},
          {"cpu_capability", at::get_cpu_capability()},
          {"threads", at::get_num_threads()},
          {"device", "cpu"}};
}

Trainer::Trainer(const record::TrainingSpec& spec, const record::Parallel& parallel,
                 const mpi::Communicator& communicator) {
  mpi::agreed(communicator, [&] {
    check_world(parallel, spec.batch_size, communicator.size());
    state_ = std::make_unique<TrainerState>(spec, parallel, communicator, load_data(spec));
  });
}

Trainer::~Trainer() = default;

void Trainer::load(const std::filesystem::path& path) {
  mpi::agreed(state_->communicator, [&] {
    const ckpt::Reader reader(path);
    if (record::to_text(checkpoint_spec(reader)) != record::to_text(state_->spec)) {
      fail(ErrorCode::conflict, "{}: belongs to another training: its spec attribute differs", path.string());
    }
    load_session(reader, state_->session);
    try {
      check_progress(state_->session.progress, state_->data.train.size(), state_->spec.batch_size);
    } catch (const Error& error) {
      fail(error.code(), "{}: {}", path.string(), error.what());
    }
  });
}

void Trainer::remember_base() {
  state_->base.clear();
  for (const StateTensor& tensor : state_->session.tensors()) {
    state_->base.emplace(tensor.meta.path,
                         std::string(static_cast<const char*>(tensor.data), tensor.meta.bytes()));
  }
}

std::vector<std::string> Trainer::changed_tensors() {
  std::set<std::string> untouched;
  std::string changed;
  for (const auto& [path, bytes] : state_->base) untouched.insert(path);
  for (const StateTensor& tensor : state_->session.tensors()) {
    const auto at = state_->base.find(tensor.meta.path);
    untouched.erase(tensor.meta.path);
    if (at == state_->base.end() || std::memcmp(at->second.data(), tensor.data, at->second.size()) != 0) {
      changed += tensor.meta.path + "\n";
    }
  }
  for (const std::string& gone : untouched) changed += gone + "\n";
  std::set<std::string> all;
  for (const std::string& part : state_->communicator.allgather(changed)) {
    std::istringstream lines(part);
    for (std::string path; std::getline(lines, path);) all.insert(path);
  }
  return {all.begin(), all.end()};
}

void Trainer::set_seed(std::uint64_t seed) { state_->session.seed = seed; }

std::int64_t Trainer::epoch() const { return state_->session.progress.epoch; }

std::vector<std::string> Trainer::replica_digests() { return state_->digests(); }

void Trainer::save(const std::filesystem::path& path, const record::Json& provenance) {
  save_session(path, state_->session, state_->spec, state_->communicator, state_->staged());
  mpi::agreed(state_->communicator, [&] {
    if (state_->communicator.rank() != 0) return;
    record::Json sidecar = provenance;
    sidecar["parallel"] = record::to_json(state_->parallel);
    std::filesystem::path beside = path;
    beside += ".json";
    replace_text(beside, sidecar.dump(2) + "\n");
  });
}

}  // namespace bitrift::train
