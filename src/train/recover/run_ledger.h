// Everything about a running run that is not in a rank's tensors, the same on all ranks: what a rank that
// joins needs to know. Inside train/ only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mpi/communicator.h"
#include "record/fault/process_fault.h"
#include "record/run.h"
#include "train/golden/trajectory.h"
#include "train/parallel/strategy.h"
#include "train/recover/position.h"
#include "train/state/state_copy.h"

namespace bitrift::train {

/// The last step, until the run has looked at it.
struct StepMade {
  std::int64_t epoch = 0;
  double learning_rate = 0, loss = 0;
  std::int64_t correct = 0;
  bool stopped = false, leave = false, epoch_ended = false;
  record::Evaluation training = {};  ///< metrics of the epoch so far
};
constexpr auto keys_of(std::type_identity<StepMade>) {
  using record::Key;
  return std::tuple(Key{"epoch", &StepMade::epoch}, Key{"learning_rate", &StepMade::learning_rate},
                    Key{"loss", &StepMade::loss}, Key{"correct", &StepMade::correct},
                    Key{"stopped", &StepMade::stopped}, Key{"leave", &StepMade::leave},
                    Key{"epoch_ended", &StepMade::epoch_ended}, Key{"training", &StepMade::training});
}

/// The progress of a run. A rank that joins the run copies this as a whole.
struct RunProgress {
  Position at;
  record::RunResult result = {};
  std::int64_t first_epoch = 0;  ///< epochs completed when the run began
  StepMade last = {};
  /// How often the state is compared with the golden run's while losses agree: not before step `next_look`;
  /// after a comparison that failed, `gap`, the distance to the next one, is doubled.
  std::int64_t next_look = 0, gap = 1;
};

/// The progress of a run, and the rest that a rank which joins it needs.
struct Ledger : RunProgress {
  Terms terms;
  Decision decision = {};                          ///< of the last step
  std::vector<record::ProcessFault> faults = {};   ///< faults that have not struck
  std::optional<std::filesystem::path> file = {};  ///< last checkpoint
  int batch_size = 0;
  std::vector<double> costs = {};         ///< of the layers
  StateCopy shared = {};                  ///< rng/ and progress/
  std::optional<Trajectory> golden = {};  ///< the golden run that the run may meet, for ranks that do not
                                          ///< have it
};

[[nodiscard]] std::string to_text(const Ledger& ledger);
/// Throws Error(internal).
[[nodiscard]] Ledger ledger_from_text(const std::string& text);

/// Ledgers of a run at its checkpoints, for a job that is launched again from the last of them. They are
/// named by the step (progress/step), because a job may end between the two files. The folder of rank 0
/// counts; without one nothing is written, and nothing is found. write() and read() are collective, and throw
/// mpi::AgreedError(io).
class LedgerFiles {
 public:
  /// keep: the number of the last ledgers from which a job may continue.
  LedgerFiles(std::filesystem::path folder, std::size_t keep) : folder_(std::move(folder)), keep_(keep) {}
  void write(const mpi::Communicator& ranks, std::int64_t step, const Ledger& ledger);
  /// The checkpoint of the last write() is complete, or in progress: removes all but the last `keep`. Local.
  void remove_earlier() noexcept;
  /// The ledger in a folder that an earlier job wrote to.
  [[nodiscard]] static std::optional<Ledger> read(const mpi::Communicator& ranks,
                                                  const std::filesystem::path& folder, std::int64_t step);

 private:
  std::filesystem::path folder_;
  std::size_t keep_;
  std::deque<std::filesystem::path> written_;  // files that this rank wrote, the last one at the end
};

}  // namespace bitrift::train
