// A user's request for a study of checkpoints (docs/checkpoint-cost.md, "The spec").
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "record/json/json.h"
#include "spec/training_spec.h"
#include "study/row/study_kinds.h"

namespace bitrift::study {

/// The checkpoint that all files hold: trained for the study, or a ready one.
struct StudyBase {
  std::optional<record::TrainingSpec> train = {};        ///< exactly one of train and checkpoint
  std::optional<std::int64_t> steps = {};                ///< of the training; absent: all its epochs
  std::optional<std::filesystem::path> checkpoint = {};  ///< absolute
};

struct DamageSpec {
  std::uint64_t flips = 400;  ///< flips of each stratum of each file; all bits if there are fewer
  std::uint64_t seed = 0;
  double timeout_seconds = 20;                     ///< a reader that takes longer counts as hanging
  std::uint64_t memory = std::uint64_t{1} << 30U;  ///< bytes that it may add to its address space
};

/// Silently wrong flips of payload that are replayed as trials of a campaign.
struct ReplaySpec {
  std::uint64_t flips = 300;  ///< flips of the payload of each file, the first ones of DamageSpec::flips
  std::int64_t epochs = 1;    ///< epochs of every run of the campaign
  std::uint64_t seed = 0;     ///< seed of the campaign, for its clean runs
};

/// Saves that are killed.
struct KillSpec {
  std::uint64_t kills = 300;  ///< the largest number for each file; all possible ones if there are fewer
};

/// A training that is resumed without a piece of its state.
struct StateSpec {
  std::uint64_t steps = 50;  ///< the largest number of steps whose losses are compared
};

/// A cluster in its users' terms. Bandwidths are bytes per second.
struct Cluster {
  std::uint64_t bytes = 0;   ///< of a checkpoint
  double write_all = 0;      ///< to the file system, all machines together
  double write_machine = 0;  ///< one machine
  double send_machine = 0;   ///< into one machine from all others
  int ranks_machine = 1;     ///< each has its own core
};

/// Saves that are timed.
struct CostSpec {
  std::uint64_t turns = 9;  ///< turns of every case, in an order that changes
  std::vector<int> ranks = {1, 2, 3, 4};
  std::vector<record::TrainingSpec> models = {};  ///< in addition to the base: other sizes for the cost model
  /// Whether ranks that are replicas of the base also save, and whether they shard the optimizer state.
  std::vector<bool> shard_optimizer = {};
  std::optional<int> cores = {};        ///< cores that ranks share; absent: all of the machine
  std::optional<Cluster> cluster = {};  ///< cluster for which more ranks are modelled
  double pause_seconds = 3;             ///< before a case, so that the disk becomes idle
  double between_seconds = 1;           ///< between two saves of a training or a library
  std::uint64_t seed = 0;
};

/// A training that is killed at exponential times, with checkpoints at several intervals.
struct PolicySpec {
  double mean_time_between_failures = 20;              ///< seconds
  std::uint64_t lives = 15;                            ///< of each interval
  std::vector<double> factors = {0.25, 0.5, 1, 2, 4};  ///< intervals, as multiples of the computed one
  std::vector<record::SaveMode> modes = {record::SaveMode::sync, record::SaveMode::async};
  std::uint64_t seed = 0;
};

struct StudySpec {
  std::string name;
  StudyBase base;
  std::vector<Format> formats;  ///< in the order of the tables, each once
  std::vector<FileWriter> writers;
  std::vector<StudyPart> parts;
  DamageSpec damage;
  ReplaySpec replay;
  KillSpec kill;
  StateSpec state;
  CostSpec cost;
  PolicySpec policy;
  double confidence = 0.95;
  std::string interpreter;  ///< Python of the native libraries; "": see find_python()

  [[nodiscard]] bool has(StudyPart part) const;
  /// Those of file_kinds that have one of these formats and one of these writers.
  [[nodiscard]] std::vector<FileKind> kinds() const;
};

/// Reads and checks a spec. Throws Error(bad_input | bad_file | not_found) with file, line and key.
[[nodiscard]] StudySpec read_study_spec(const std::filesystem::path& path);
/// The values that must stay the same when a study is resumed; equal specs give equal values.
[[nodiscard]] record::Json to_json(const StudySpec& spec);

}  // namespace bitrift::study
