// The part `policy`: trainings that are killed at random and resumed, with checkpoints at several intervals.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "campaign/progress/progress.h"
#include "study/policy/killed_training.h"
#include "study/row/study_journal.h"
#include "study/row/study_spec.h"

namespace bitrift::study {

/// The file that such a training saves.
inline constexpr FileKind policy_kind{Format::hdf5, FileWriter::bitrift, ".h5", ""};
/// Runs one training for each mode and interval, in turns: first the first life of each, then the second, so
/// that a machine that becomes slower is slow for all. A save's cost depends on how often it comes, so the
/// costs of each interval are measured before its first life, and again in turn.
class Policy {
 public:
  /// folder: for the trainings. All but the paths must outlive this.
  Policy(const PolicySpec& spec, StudyJournal& journal, campaign::Progress& progress,
         std::filesystem::path trainer, std::filesystem::path base, std::filesystem::path folder);

  /// Adds the rows that are not there. Throws as KilledTraining does.
  void run();

 private:
  [[nodiscard]] KilledTraining& training(record::SaveMode mode, std::int64_t interval);
  void measure(record::SaveMode mode, std::int64_t interval, std::uint64_t number);
  void live(record::SaveMode mode, std::int64_t interval, std::uint64_t number);

  const PolicySpec& spec_;
  StudyJournal& journal_;
  campaign::Progress& progress_;
  std::filesystem::path trainer_, base_, folder_;
  std::map<std::pair<record::SaveMode, std::int64_t>, KilledTraining> trainings_;
};

/// Intervals of the spec for these costs, in steps, ascending, each once.
[[nodiscard]] std::vector<std::int64_t> policy_intervals(const PolicySpec& spec, record::SaveMode mode,
                                                         const PolicyCosts& costs);

}  // namespace bitrift::study
