// The part `cost`: how long saves take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "campaign/progress/progress.h"
#include "core/process/subprocess.h"
#include "study/reader/native_reader.h"
#include "study/row/study_journal.h"
#include "study/row/study_spec.h"

namespace bitrift::study {

/// A line of the table of costs.
struct TimedKind {
  FileKind kind;
  CostCase what;
  bool operator==(const TimedKind&) const = default;
};

/// The ways that are timed in addition to raw, installed or not: the kinds of the spec, and the parallel HDF5
/// if native HDF5 and more than one rank are among them.
[[nodiscard]] std::vector<FileKind> timed_kinds(const StudySpec& spec);

/// All cases of a spec. bitrift: every format, one rank; HDF5 also without saves, in the background, and with
/// more ranks by every route, for every model; with spec.cost.shard_optimizer, replicas of the base too, by
/// both routes and in the background. Native: every installed format; raw and dcp in the background
/// too. Parallel HDF5: more ranks, by its own routes. installed: see installed_kinds().
[[nodiscard]] std::vector<TimedKind> cost_cases(const StudySpec& spec,
                                                const std::map<std::string, bool>& installed);

/// For each format, whether native files can be written. Parallel HDF5 needs bitrift-hdf5-parallel next to
/// bitrift-train. Throws as NativeReader::facts() does.
[[nodiscard]] std::map<std::string, bool> installed_kinds(NativeReader& reader,
                                                          const std::filesystem::path& trainer);

/// Times all cases in turns, each turn in another order, with sync(2) and a pause before each case.
class Cost {
 public:
  /// bases: the base, then the checkpoints of spec.cost.models. folder: for the saved files. All but the
  /// paths must outlive this.
  Cost(const StudySpec& spec, NativeReader& reader, StudyJournal& journal, campaign::Progress& progress,
       std::filesystem::path trainer, std::vector<std::filesystem::path> bases, std::filesystem::path folder);

  /// Adds the rows that are not there. Throws as NativeReader::time() and run_to_json() do, and
  /// campaign::Misbehaviour if a file that was written in parallel holds other values than the base.
  void run();

 private:
  void rest() const;
  [[nodiscard]] CostResult time_native(const TimedKind& timed);
  [[nodiscard]] CostResult time_bitrift(const TimedKind& timed);
  [[nodiscard]] CostResult time_parallel(const TimedKind& timed);
  /// The timed training.
  [[nodiscard]] Command resume(const CostCase& what, const std::vector<std::string>& options) const;
  [[nodiscard]] double step_seconds(const CostCase& what);

  const StudySpec& spec_;
  NativeReader& reader_;
  StudyJournal& journal_;
  campaign::Progress& progress_;
  std::filesystem::path trainer_;
  std::vector<std::filesystem::path> bases_;
  std::filesystem::path folder_;
  // For (ranks, model, shard_optimizer): seconds of a step, roughly.
  std::map<std::tuple<int, std::size_t, std::optional<bool>>, double> steps_;
};

}  // namespace bitrift::study
