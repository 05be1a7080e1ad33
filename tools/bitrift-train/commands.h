// The commands of bitrift-train.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint_options.h"
#include "format_options.h"
#include "guard_options.h"
#include "link_options.h"
#include "parallel_options.h"
#include "recovery_options.h"
#include "spec/training_spec.h"

namespace bitrift::cli {

/// What the command line said.
struct Arguments {
  std::filesystem::path
      input;  ///< train: the spec; resume: the checkpoint, or a folder of them; serve: the base
  std::filesystem::path output;  ///< -o, a file or a folder; empty: nothing is saved
  std::filesystem::path trace;   ///< empty: none
  std::optional<std::int64_t> steps, epochs;
  ParallelArguments parallel;
  std::vector<std::string> replica_files;  ///< resume: "R=FILE", what replica R loads instead
  std::optional<std::string> precision;    ///< resume: numbers are converted to it
  GuardArguments guards;                   ///< resume
  RecoveryArguments recovery;              ///< train, resume
  LinkArguments links;                     ///< the same
  std::vector<std::string> strikes;        ///< the same
  CheckpointArguments checkpoints;         ///< train, resume
  FormatArguments format;                  ///< train, resume
  bool json = false;
  bool check_replicas = false;
  std::filesystem::path
      relaunched;  ///< train, resume: checkpoint from which a job that lost a rank continues
  bool relaunched_from_start = false;  ///< train, resume: it wrote none before that
  std::optional<int> batch_size;       ///< resume: instead of the spec's
  bool fresh = false;                  ///< train
  std::string connect;                 ///< serve
  std::string drill;                   ///< serve
  std::optional<std::string>
      serve_recovery;              ///< serve: record::RecoverySpec as JSON; absent: no rank may fail
  int reserve = 0;                 ///< serve: idle processes that replace lost ones between two runs
  bool detector = false;           ///< serve: stopped processes are noticed too
  std::vector<std::string> words;  ///< everything after the program's name, to start it again under mpirun
};

/// Exit codes: 0 done, 1 training stopped at a non-finite loss or metric. Everything else is thrown.
[[nodiscard]] int train(const Arguments& arguments);
[[nodiscard]] int resume(const Arguments& given);
[[nodiscard]] int serve(const Arguments& arguments);
[[nodiscard]] int describe(const Arguments& arguments);

}  // namespace bitrift::cli
