// A result of a study of checkpoints, as its file of rows keeps it (docs/checkpoint-cost.md, "Rows").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "record/json/keys.h"
#include "record/outcome.h"
#include "spec/checkpoint_policy.h"
#include "study/row/study_kinds.h"

namespace bitrift::study {

/// A bit of a file, and its owner.
struct BitFault {
  std::string file;  ///< in a folder: the file; "" otherwise
  std::uint64_t byte = 0;
  int bit = 0;
  std::string structure;  ///< "central directory"; for payload, the tensor
  bool operator==(const BitFault&) const = default;
};
constexpr auto keys_of(std::type_identity<BitFault>) {
  using record::Key;
  return std::tuple(Key{"file", &BitFault::file}, Key{"byte", &BitFault::byte}, Key{"bit", &BitFault::bit},
                    Key{"structure", &BitFault::structure});
}

/// One read of a damaged file, or of a canary.
struct DamageResult {
  std::optional<DamageCanary> canary = {};
  BitStratum stratum = BitStratum::payload;  ///< of flips
  std::uint64_t draw = 0;                    ///< of flips
  std::optional<BitFault> fault = {};        ///< of flips
  DamageOutcome outcome = DamageOutcome::same;
  std::string message = {};   ///< message of the reader; silently wrong: which tensors
  std::uint64_t missing = 0;  ///< silently wrong: saved tensors that the reader did not return
  bool operator==(const DamageResult&) const = default;
};

/// One element of a tensor in which some bits differ.
struct ValueChange {
  std::string tensor;
  std::uint64_t element = 0;  ///< row-major
  std::uint64_t mask = 0;     ///< the bits that differ; bit 0 is the least significant of the value
  bool operator==(const ValueChange&) const = default;
};

/// A silently wrong flip of payload, replayed as a trial of a campaign.
struct ReplayResult {
  std::uint64_t draw = 0;                     ///< draw of the payload, as DamageResult::draw
  std::optional<ValueChange> change = {};     ///< the change that the reader returned; absent: not exactly
                                              ///< one element
  std::optional<record::Reason> reason = {};  ///< reason of the trial's outcome; absent without a change
  bool operator==(const ReplayResult&) const = default;
};

struct SizeResult {
  std::uint64_t bytes = 0;          ///< of the file, or of all files of the folder
  std::uint64_t payload_bytes = 0;  ///< those of them that hold values of the state's tensors
  std::uint64_t tensor_bytes = 0;   ///< of the values in memory
  std::uint64_t parameters = 0;     ///< parameters that the model trains
  bool operator==(const SizeResult&) const = default;
};
constexpr auto keys_of(std::type_identity<SizeResult>) {
  using record::Key;
  return std::tuple(Key{"bytes", &SizeResult::bytes}, Key{"payload_bytes", &SizeResult::payload_bytes},
                    Key{"tensor_bytes", &SizeResult::tensor_bytes},
                    Key{"parameters", &SizeResult::parameters});
}

/// Two saves of one state in two processes, seconds apart, under two names.
struct DeterminismResult {
  bool equal = false;
  std::uint64_t first_bytes = 0, second_bytes = 0;  ///< sizes
  std::uint64_t differing_bytes = 0;                ///< number of differing bytes at places that both have
  std::optional<BitFault> first_difference = {};    ///< bit: unused
  bool operator==(const DeterminismResult&) const = default;
};
constexpr auto keys_of(std::type_identity<DeterminismResult>) {
  using record::Key;
  return std::tuple(Key{"equal", &DeterminismResult::equal},
                    Key{"first_bytes", &DeterminismResult::first_bytes},
                    Key{"second_bytes", &DeterminismResult::second_bytes},
                    Key{"differing_bytes", &DeterminismResult::differing_bytes},
                    Key{"first_difference", &DeterminismResult::first_difference});
}

/// One save over an older checkpoint, killed at a call that alters files.
struct KillResult {
  std::uint64_t call = 0;               ///< from 1; 0: nothing is killed
  bool half = false;                    ///< killed when half of the call's bytes are written; else before the
                                        ///< call
  std::vector<std::string> calls = {};  ///< the call, "pwrite64"; for call 0 all of them
  std::uint64_t points = 0;             ///< for call 0: see kill_points()
  KillOutcome outcome = KillOutcome::complete;
  std::string message = {};  ///< as of DamageResult
  std::uint64_t left = 0;    ///< files that belong neither to the older checkpoint nor to a complete save
  bool operator==(const KillResult&) const = default;
};

/// A training that was resumed from a checkpoint without a piece of its state.
struct StateResult {
  std::string piece;          ///< "optimizer/momentum_buffer"
  std::uint64_t tensors = 0;  ///< of it
  std::uint64_t changed = 0;  ///< those of them that differ from a training that has just begun
  std::uint64_t steps = 0;    ///< steps that were compared with those of the whole state
  std::optional<std::uint64_t> first_step = {};  ///< first step, from 1, whose loss differs; absent: none
  std::optional<double> largest = {};            ///< largest difference of a loss; absent: none, or not a
                                                 ///< number
  std::optional<std::uint64_t> first_evaluation = {};  ///< first evaluation, from 1, whose loss differs;
                                                       ///< absent: none
  std::string refused = {};                            ///< why the training did not begin
  bool operator==(const StateResult&) const = default;
};
constexpr auto keys_of(std::type_identity<StateResult>) {
  using record::Key;
  return std::tuple(Key{"piece", &StateResult::piece}, Key{"tensors", &StateResult::tensors},
                    Key{"changed", &StateResult::changed}, Key{"steps", &StateResult::steps},
                    Key{"first_step", &StateResult::first_step},
                    Key{"largest_difference", &StateResult::largest},
                    Key{"first_evaluation", &StateResult::first_evaluation},
                    Key{"refused", &StateResult::refused, record::Presence::unless_default});
}

/// A way to save, and what is saved.
struct CostCase {
  std::optional<record::SaveMode> mode = {};  ///< absent: a training that saves nothing
  SaveRoute route = SaveRoute::gather;
  int ranks = 1;          ///< stages of a pipeline; hdf5_parallel: each has a part of every tensor
  std::size_t model = 0;  ///< 0: the base; otherwise an index of CostSpec::models, from 1
  /// If present: the ranks are replicas, and this says whether they shard the optimizer state.
  std::optional<bool> shard_optimizer = {};
  bool operator==(const CostCase&) const = default;
};

/// One timed run: medians over its saves. All in seconds.
struct CostResult {
  CostCase what;
  std::uint64_t turn = 0;
  std::uint64_t bytes = 0;                 ///< of the file or folder; 0 without one
  double block = 0;                        ///< seconds for which a save stops the training
  double persist = 0;                      ///< async: from then until the disk has the file
  std::optional<double> load = {};         ///< bitrift: to load the base
  std::optional<double> step = {};         ///< bitrift: a step while saves may be in progress
  std::optional<std::int64_t> every = {};  ///< bitrift: steps between two saves
  std::optional<double> processor = {};    ///< native: processor time of the process
  std::optional<std::string> library =
      {};  ///< hdf5_parallel: the library that wrote the file, "HDF5 1.10.8 on Open MPI v5.0.11"
  bool operator==(const CostResult&) const = default;
};

/// The cost of one way to save for a training, all in seconds.
struct PolicyCosts {
  double step = 0;     ///< a step, evaluations included
  double block = 0;    ///< seconds for which a save stops the training
  double persist = 0;  ///< async: from then until the disk has the file
  double restart = 0;  ///< from the start of a process to its first step
  bool operator==(const PolicyCosts&) const = default;
};

/// A training from the start of its process to its kill.
struct Life {
  double seconds = 0;
  std::int64_t steps = 0;  ///< steps by which the newest checkpoint advanced
  /// Means of this life until its newest checkpoint; 0: not known.
  double step = 0, block = 0, persist = 0;
  bool operator==(const Life&) const = default;
};

/// For a training that writes a checkpoint every `interval` steps: its costs, or one life.
struct PolicyResult {
  record::SaveMode mode = record::SaveMode::sync;
  std::int64_t interval = 0;  ///< 0: costs from which intervals are computed, with saves some seconds apart
  std::uint64_t number = 0;   ///< the turn
  std::variant<PolicyCosts, Life> found = {};
  bool operator==(const PolicyResult&) const = default;
};

struct StudyRow {
  Format format = Format::hdf5;
  FileWriter writer = FileWriter::native;
  std::variant<SizeResult, DeterminismResult, DamageResult, ReplayResult, KillResult, StateResult, CostResult,
               PolicyResult>
      result = {};

  [[nodiscard]] StudyPart part() const noexcept { return static_cast<StudyPart>(result.index()); }
  /// Names the row within its study: "damage/npz/native/metadata/17".
  [[nodiscard]] std::string id() const;
  bool operator==(const StudyRow&) const = default;
};

[[nodiscard]] record::Json to_json(const StudyRow& row);
/// Throws Error(bad_file) and record::Json::exception for anything else.
[[nodiscard]] StudyRow study_row_from_json(const record::Json& value);

/// A change as in rows and answers of readers. Throws record::Json::exception and Error(bad_file).
[[nodiscard]] ValueChange change_from_json(const record::Json& value);

/// The id of a planned row.
[[nodiscard]] std::string row_id(StudyPart part, const FileKind& kind);
[[nodiscard]] std::string canary_id(const FileKind& kind, DamageCanary canary);
[[nodiscard]] std::string replay_id(const FileKind& kind, std::uint64_t draw);
[[nodiscard]] std::string kill_id(const FileKind& kind, std::uint64_t call, bool half);
[[nodiscard]] std::string state_id(const std::string& piece);
[[nodiscard]] std::string cost_id(const FileKind& kind, const CostCase& what, std::uint64_t turn);
[[nodiscard]] std::string costs_id(const FileKind& kind, record::SaveMode mode, std::int64_t interval,
                                   std::uint64_t number);
[[nodiscard]] std::string life_id(const FileKind& kind, record::SaveMode mode, std::int64_t interval,
                                  std::uint64_t number);
[[nodiscard]] std::string flip_id(const FileKind& kind, BitStratum stratum, std::uint64_t draw);

}  // namespace bitrift::study
