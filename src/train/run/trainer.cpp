#include "train/run/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include <fmt/format.h>
#include <torch/version.h>

#include "core/file.h"
#include "core/log.h"
#include "train/parallel/build.h"
#include "train/run/loop.h"
#include "train/run/state_watch.h"
#include "train/run/trainer_state.h"
#include "train/state/checkpoint_spec.h"
#include "train/state/load_checkpoint.h"
#include "train/state/save_checkpoint.h"
#include "train/step/schedule.h"

namespace bitrift::train {
namespace {

void check_world(const record::TrainingSpec& spec, const record::Parallel& parallel, int world) {
  record::check_parallel(parallel, spec.batch_size, spec.where("parallel"));
  if (parallel.ranks != world) {
    fail(ErrorCode::bad_input,
         "parallel: {} needs {} rank(s), but MPI started {}; give the same number to --ranks and mpirun -n",
         name_of(parallel.kind), parallel.ranks, world);
  }
}

// Both users of a tied matrix must be on one rank.
void check_tied(const record::TrainingSpec& spec, const record::Parallel& parallel) {
  if (!spec.model.tied || parallel.stages == 1) return;
  fail(ErrorCode::bad_input,
       "{}: a pipeline of {} stages holds the token embedding and lm_head on different ranks, so they cannot "
       "be "
       "one tensor; leave 'tied' out, or choose serial or data",
       spec.where("model.tied"), parallel.stages);
}

// Ranks at different batches would wait for each other for ever.
void check_same_place(const Layout& layout, const Progress& progress) {
  struct Place {
    std::int64_t epoch, step, cursor;
    bool operator==(const Place&) const = default;
  };
  const Place mine{progress.epoch, progress.step, progress.cursor};
  std::vector<Place> all(static_cast<std::size_t>(layout.world.size()));
  layout.world.allgather_equal(&mine, sizeof mine, all.data());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw mpi::AgreedError(ErrorCode::bad_file,
                           fmt::format("rank {} is at epoch {}, step {}, sample {}; rank 0 at {}, {}, {}: "
                                       "they cannot continue together; load files of the same step",
                                       rank, all[rank].epoch, all[rank].step, all[rank].cursor, all[0].epoch,
                                       all[0].step, all[0].cursor));
  }
}

// A device that the spec names has a place in it; one from the command line has none.
void check_device(const record::TrainingSpec& spec, const record::Parallel& parallel) {
  try {
    (void)choose_device(parallel, 0);
  } catch (const Error& error) {
    for (const char* key : {"device", "parallel.device"}) {
      if (spec.has(key)) throw Error(error.code(), spec.where(key) + ": " + error.what());
    }
    throw;
  }
}

// Guards only read: a file belongs to the same training with other guards or none.
std::string comparable_text(record::TrainingSpec spec, bool convert, bool resize) {
  spec.guards = {};
  if (resize) {
    spec.batch_size = 0;
    spec.resized.clear();
  }
  if (convert) {
    spec.precision = record::Precision::fp32;
    spec.loss_scale.reset();
  }
  return record::to_text(spec);
}

}  // namespace

std::shared_ptr<const nn::Dataset> load_runnable(const record::TrainingSpec& spec,
                                                 const record::Parallel& parallel) {
  check_world(spec, parallel, parallel.ranks);
  check_device(spec, parallel);
  check_tied(spec, parallel);
  std::shared_ptr<const nn::Dataset> data = load_data(spec);
  (void)cut_layers(spec, nn::estimated_costs(make_layers(spec, *data)), parallel.stages);
  check_schedule(spec, data->train_size() / spec.batch_size * spec.epochs);
  return data;
}

void prepare_libtorch(int threads) {
  torch::set_num_threads(threads);
  if (at::get_num_interop_threads() != 1) at::set_num_interop_threads(1);
  at::globalContext().setDeterministicAlgorithms(true, false);
  // Deterministic mode would also fill every new tensor with NaN, to reveal reads before writes, which only
  // costs time here.
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

record::Json libtorch_environment(record::DeviceKind device) {
  return {{"libtorch", TORCH_VERSION},
          {"cpu_capability", at::get_cpu_capability()},
          {"threads", at::get_num_threads()},
          {"device", device}};
}

Trainer::Trainer(const record::TrainingSpec& spec, const record::Parallel& parallel,
                 const mpi::Communicator& communicator, bool fresh, std::shared_ptr<const nn::Dataset> data) {
  mpi::agreed(communicator, [&] {
    check_world(spec, parallel, communicator.size());
    if (!data) data = load_runnable(spec, parallel);
  });
  state_ = std::make_unique<TrainerState>(spec, parallel, Team(communicator), record::RecoverySpec(),
                                          std::move(data), fresh);
}

Trainer::Trainer(const record::TrainingSpec& spec, const record::Parallel& parallel, Team team,
                 const record::RecoverySpec& recovery, bool fresh, std::shared_ptr<const nn::Dataset> data) {
  const auto prepare = [&] {
    if (team.working()) check_world(spec, parallel, team.active().size());
    if (!data) data = load_runnable(spec, parallel);
  };
  // A rank joins in the middle of a recovery: no separate collective comes first.
  if (team.is_newcomer()) {
    prepare();
  } else {
    mpi::agreed(team.everyone(), prepare);
  }
  state_ = std::make_unique<TrainerState>(spec, parallel, std::move(team), recovery, std::move(data), fresh);
}

mpi::Communicator Trainer::group() const { return working() ? state_->team.active() : mpi::Communicator(); }

bool Trainer::working() const noexcept { return state_->team.working(); }

const mpi::Communicator& Trainer::everyone() const noexcept { return state_->team.everyone(); }

bool Trainer::leads() const noexcept {
  const Team& team = state_->team;
  if (team.workers().empty()) return team.everyone().rank() == 0;
  return team.working() && team.active().rank() == 0;
}

bool Trainer::base_is_due() const noexcept { return state_->regrouped; }

void Trainer::set_recovery(const record::RecoverySpec& recovery) { state_->recovery = recovery; }

void Trainer::dismiss() noexcept {
  if (leads()) state_->team.release();
}

bool Trainer::regroup() {
  Team& team = state_->team;
  const int wanted = state_->parallel.ranks;
  if (static_cast<int>(team.workers().size()) == wanted) return true;
  std::vector<int> ranks = team.workers();
  for (const int rank : team.idle()) ranks.push_back(rank);
  if (static_cast<int>(ranks.size()) < wanted) return false;
  ranks.resize(static_cast<std::size_t>(wanted));
  state_->regrouped = true;
  state_->stop_work();
  team.set_workers(ranks);
  state_->map = ReplicaMap(state_->parallel.replicas(), state_->parallel.stages);
  state_->mesh = state_->parallel.mesh;
  if (team.working()) state_->spread(state_->map, state_->mesh);
  return true;
}

Trainer::~Trainer() = default;

void Trainer::load(const LoadRequest& request) {
  if (!working()) return;
  TrainerState& state = *state_;
  const Layout& layout = state.layout();
  const auto own = request.replica_files.find(layout.replica());
  const bool usual = own == request.replica_files.end();
  const std::filesystem::path& path = usual ? request.path : own->second;
  Loaded loaded;
  state.guards.clear();
  state.altered.reset();
  mpi::agreed(layout.world, [&] {
    for (const auto& [replica, file] : request.replica_files) {
      if (replica < 0 || replica >= layout.replica_count()) {
        fail(ErrorCode::bad_input, "{}: there is no replica {}; this run has replicas 0 to {}", file.string(),
             replica, layout.replica_count() - 1);
      }
    }
    std::optional<ckpt::Reader> here;
    if (!usual || request.opened == nullptr) here.emplace(path);
    const ckpt::Reader& reader = here ? *here : *request.opened;
    const record::TrainingSpec theirs = checkpoint_spec(reader);
    if (comparable_text(theirs, request.convert, request.resize) !=
        comparable_text(state.spec, request.convert, request.resize)) {
      fail(ErrorCode::conflict, "{}: belongs to another training: its spec attribute differs", path.string());
    }
    loaded = load_session(reader, state.session(),
                          {.replica = layout.replica(),
                           .replicas = layout.replica_count(),
                           .convert = request.convert,
                           .verify = state.spec.guards.checksums});
    state.guards.see_checksums(loaded.bad_checksums);
    if (state.guards.stops() && state.guards.count() > 0)
      fail(ErrorCode::bad_file, "{}: {}", path.string(), record::describe(state.guards.alarms().front()));
    check_loaded_progress(path);
  });
  if (layout.world.rank() == 0 && !loaded.remark.empty()) spdlog::warn("{}", loaded.remark);
  note_changes();
  check_same_place(layout, state.session().progress);
  share_after_load();
}

void Trainer::check_loaded_progress(const std::filesystem::path& path) const {
  try {
    check_progress(state_->session().progress, state_->data->train_size(), state_->spec,
                   state_->data->targets_per_sample());
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", path.string(), error.what());
  }
}

void Trainer::share_after_load() {
  TrainerState& state = *state_;
  const record::ResumeSync what = state.parallel.synced_on_resume();
  if (state.layout().replica_count() == 1) return;
  const bool with_optimizer = what == record::ResumeSync::model_and_optimizer;
  const bool one_file = state.session().shard().sharded();  // and a rank may hold no part of the state
  const auto filled = static_cast<char>(one_file || state.session().optimizer().has_state());
  std::vector<char> all(static_cast<std::size_t>(state.layout().world.size()));
  state.layout().world.allgather_equal(&filled, 1, all.data());
  for (const char other : all) {
    if (other != all[0]) {
      throw mpi::AgreedError(
          ErrorCode::bad_file,
          "some replicas loaded optimizer state and others none; load files of one training");
    }
  }
  if (what != record::ResumeSync::none) state.share_state(with_optimizer);
}

void Trainer::remember_base(ckpt::Reader file) {
  state_->regrouped = false;
  if (!working()) return;
  state_->base_file = std::move(file);
  state_->base = copy_state(state_->session());
}

void Trainer::reset(const std::filesystem::path& path, const std::vector<std::string>& altered,
                    const std::vector<int>& replicas) {
  TrainerState& state = *state_;
  state.guards.clear();
  state.altered = altered;
  mpi::agreed(state.layout().world, [&] {
    restore_session(state.session(), state.base);
    const bool reads = replicas.empty() || std::find(replicas.begin(), replicas.end(),
                                                     state.layout().replica()) != replicas.end();
    if (altered.empty() || !reads) return;
    read_tensors(*state.base_file, path, state.session(), altered);
    check_loaded_progress(path);
  });
  note_changes();
  check_same_place(state.layout(), state.session().progress);
  share_after_load();
}

void Trainer::note_changes() {
  TrainerState& state = *state_;
  const auto looked_at = [&](const std::string& path) {
    return !state.altered ||
           std::find(state.altered->begin(), state.altered->end(), path) != state.altered->end();
  };
  state.changed.clear();
  if (state.base.empty()) return;
  std::set<std::string> untouched;
  for (const auto& [path, bytes] : state.base) {
    if (looked_at(path)) untouched.insert(path);
  }
  for (const StateTensor& tensor : state.session().tensors()) {
    if (!looked_at(tensor.meta.path)) continue;
    const auto at = state.base.find(tensor.meta.path);
    untouched.erase(tensor.meta.path);
    tensor.read([&](const void* bytes) {
      if (at == state.base.end() || std::memcmp(at->second.data(), bytes, at->second.size()) != 0)
        state.changed.push_back(tensor.meta.path);
    });
  }
  state.changed.insert(state.changed.end(), untouched.begin(), untouched.end());
}

std::vector<std::string> Trainer::changed_tensors() {
  if (!working()) return {};
  std::set<std::string> all;
  const std::vector<std::uint8_t> mine =
      record::Json::to_cbor(state_->changed);  // any bytes may be in a path
  for (const std::string& part : state_->layout().world.allgather({mine.begin(), mine.end()})) {
    for (const record::Json& path : record::Json::from_cbor(part)) all.insert(path.get<std::string>());
  }
  return {all.begin(), all.end()};
}

std::uint64_t Trainer::seed() const { return working() ? state_->session().seed : 0; }

void Trainer::set_seed(std::uint64_t seed) {
  if (working()) state_->session().seed = seed;
}

std::int64_t Trainer::epoch() const { return working() ? state_->session().progress.epoch : 0; }

std::int64_t Trainer::step() const { return working() ? state_->session().progress.step : 0; }

std::vector<std::string> Trainer::replica_digests() {
  return working() ? state_->digests() : std::vector<std::string>();
}

void Trainer::prepare_saves(ckpt::WriteFormat format) {
  if (working() && state_->layout().world.rank() == 0)
    train::prepare_saves(format, state_->saves, state_->session(), state_->spec);
}

void Trainer::save(const std::filesystem::path& path, const record::Json& provenance,
                   const SaveOptions& how) {
  record::Json sidecar = provenance;
  sidecar["parallel"] = record::to_json(state_->parallel);
  const auto both = [beside = path.string() + ".json", text = sidecar.dump(2) + "\n", saved = how.saved] {
    replace_text(beside, text);
    if (saved) saved();
  };
  save_session({path, how.mode, how.writer, both, how.format}, state_->saves, state_->session(), state_->spec,
               state_->layout(), state_->kill_point);
}

record::RunResult Trainer::run(const RunOptions& options) { return Loop(*state_, options).run(); }

std::vector<std::vector<std::int64_t>> Trainer::state_groups(const record::PropagationSpec& wanted,
                                                             std::int64_t epochs) {
  return train::state_groups(*state_, wanted, epochs);
}

}  // namespace bitrift::train
