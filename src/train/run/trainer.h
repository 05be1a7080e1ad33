// A training run on all ranks: from a spec or a checkpoint, through steps and evaluations, to a result and a
// file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/reader.h"
#include "mpi/communicator.h"
#include "record/recovery.h"
#include "record/run.h"
#include "spec/training_spec.h"
#include "train/recover/team.h"
#include "train/run/run_options.h"
#include "train/run/trace.h"
#include "train/state/save_checkpoint.h"

namespace bitrift::nn {
class Dataset;
}

namespace bitrift::train {

struct TrainerState;

/// The data set of a spec. Throws Error(bad_input | not_found | bad_file | unsupported) when the spec cannot
/// run in this way: data set, model, batch, ranks, device. No LibTorch state is made.
[[nodiscard]] std::shared_ptr<const nn::Dataset> load_runnable(const record::TrainingSpec& spec,
                                                               const record::Parallel& parallel);

/// Makes LibTorch's process-wide settings: threads within an operator, one between operators, deterministic
/// algorithms.
void prepare_libtorch(int threads);

/// LibTorch's version, its processor capability, threads, device: everything on which bits may depend.
[[nodiscard]] record::Json libtorch_environment(record::DeviceKind device);

/// What to load.
struct LoadRequest {
  std::filesystem::path path;
  std::map<int, std::filesystem::path> replica_files =
      {};                ///< instead of `path`, for replicas of that number
  bool convert = false;  ///< numbers of another precision are rounded to the spec's instead of refused
  bool resize = false;   ///< the file's training had another batch size
  const ckpt::Reader* opened = nullptr;  ///< `path`, if it is already open
};

/// How to save. saved: called on rank 0 when file and provenance exist; with mode async, on another thread.
struct SaveOptions {
  SaveMode mode = SaveMode::sync;
  SaveWriter writer = SaveWriter::gather;
  std::function<void()> saved = {};
  ckpt::WriteFormat format = ckpt::WriteFormat::hdf5;
};

/// Every call is collective over the communicator, and errors are mpi::AgreedError on all ranks, unless said
/// otherwise.
class Trainer {
 public:
  /// fresh: initialised from the spec; otherwise a load() fills it. data: as returned by load_runnable() for
  /// both; without it, load_runnable() is called here, and this throws as it does.
  Trainer(const record::TrainingSpec& spec, const record::Parallel& parallel,
          const mpi::Communicator& communicator, bool fresh,
          std::shared_ptr<const nn::Dataset> data = nullptr);
  /// A team in which some may wait, some have joined, and any may fail while run() works. In a process that
  /// has no work, only run() of the calls below does anything.
  Trainer(const record::TrainingSpec& spec, const record::Parallel& parallel, Team team,
          const record::RecoverySpec& recovery, bool fresh,
          std::shared_ptr<const nn::Dataset> data = nullptr);
  ~Trainer();
  Trainer(Trainer&&) = delete;
  Trainer& operator=(Trainer&&) = delete;

  /// The working ranks; a group of this rank alone where it has no work. Local.
  [[nodiscard]] mpi::Communicator group() const;
  [[nodiscard]] bool working() const noexcept;
  /// All living processes, including those that wait. Local.
  [[nodiscard]] const mpi::Communicator& everyone() const noexcept;
  /// Whether this process reports for the run: it is rank 0 of the working processes or, if none works, of
  /// all. Local.
  [[nodiscard]] bool leads() const noexcept;
  /// Before another run of a team that lost members: as many as at first work again. Collective over all
  /// living ranks. False: too few are alive.
  [[nodiscard]] bool regroup();
  /// Whether ranks work that did not remember the base: then load it and call remember_base() again. Local.
  [[nodiscard]] bool base_is_due() const noexcept;
  /// Releases the waiting members, if no further run() does. Local.
  void dismiss() noexcept;
  /// The next run's reaction when a rank fails. Local; the same on all ranks.
  void set_recovery(const record::RecoverySpec& recovery);

  /// Overwrites the whole state with a checkpoint of the same spec, then shares what
  /// parallel.synced_on_resume() says from replica 0. Refuses a file that cannot be read,
  /// does not fit or has impossible progress, and replicas that are at different batches. After a refusal,
  /// load again before the next run.
  void load(const LoadRequest& request);
  /// Keeps a copy of the state just loaded from `file`, for reset() and changed_tensors(). Local.
  void remember_base(ckpt::Reader file);
  /// Like load() of a copy of the remembered file in which only values of the tensors `altered` differ: only
  /// those are read, and all others come from memory. Only `replicas` read the file (empty: all).
  void reset(const std::filesystem::path& path, const std::vector<std::string>& altered,
             const std::vector<int>& replicas);
  /// Tensors to which some rank's last load() or reset() gave other bytes than the remembered ones, or that
  /// only one of the two has; before anything was shared among replicas. reset() compares only the altered
  /// ones. Sorted, equal on all ranks.
  [[nodiscard]] std::vector<std::string> changed_tensors();
  /// The data-order seed. Local.
  [[nodiscard]] std::uint64_t seed() const;
  /// Replaces it. Local.
  void set_seed(std::uint64_t seed);
  /// Epochs completed so far. Local.
  [[nodiscard]] std::int64_t epoch() const;
  /// Steps of the whole training so far. Local.
  [[nodiscard]] std::int64_t step() const;

  /// Trains and evaluates: at each epoch's end, and at the end of the run if that is within an epoch or no
  /// step was taken. Stops at the first non-finite loss or metric (status nonfinite), before the parameters
  /// take that step. Throws Error(internal) when check_replicas finds that replicas differ.
  [[nodiscard]] record::RunResult run(const RunOptions& options);

  /// The steps of a golden run of this many epochs, from the present state, that `wanted` asks for. They are
  /// cut into groups, each of which fits into wanted.memory_mib on every rank. Throws Error(bad_input) when
  /// that makes more than eight.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> state_groups(const record::PropagationSpec& wanted,
                                                                    std::int64_t epochs);

  /// Digest of the whole state: one per replica.
  [[nodiscard]] std::vector<std::string> replica_digests();
  /// Call it before the first save in the background: the rank that writes the files begins to make the
  /// memory for them on another thread. Otherwise the first two saves make it. Local.
  void prepare_saves(ckpt::WriteFormat format);
  /// Writes a checkpoint and next to it FILE.json with `provenance`, and the parallel layout that wrote it.
  /// mode async: if that fails, the next save throws, or the end of the trainer logs it.
  void save(const std::filesystem::path& path, const record::Json& provenance, const SaveOptions& how = {});

 private:
  void note_changes();
  void check_loaded_progress(const std::filesystem::path& path) const;
  void share_after_load();

  std::unique_ptr<TrainerState> state_;
};

}  // namespace bitrift::train
