// How the programs that need LibTorch and MPI are found and called.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/process/subprocess.h"
#include "design/campaign_spec.h"

namespace bitrift::campaign {

/// What all workers of a campaign have in common.
struct Launch {
  std::filesystem::path program;  ///< bitrift-train
  std::filesystem::path base;     ///< of the worker's arm: what "changed" is measured against
  std::string wrapper;            ///< CampaignSpec::launch: "{ranks}" and "{command}" are replaced; "" = none
  bool ignore_file = false;       ///< drill: the worker resumes from the base, whatever file it is given
  record::RunnerSpec runner = {};  ///< CampaignSpec::runner; kind train: `program` trains
  Command python = {};             ///< runner.python: what runs the script, see script_python()
  int failing = 0;                 ///< ranks that fail in a trial; 0: bits are altered, and no rank fails
  bool detector = false;           ///< failing: stopped processes are to be noticed too
  /// failing: the bitrift whose exec-guard starts the worker, so that processes which were spawned and have
  /// not connected end with it too; "": none.
  std::filesystem::path guard = {};

  /// Starts of a worker that may fail in a row before none is tried any more. Open MPI's failure detector
  /// crashes in about one start in ten (docs/rank-failure.md).
  [[nodiscard]] int failing_starts() const noexcept { return detector ? 5 : 2; }
};

/// How many processes a worker has.
struct Processes {
  int working = 1;  ///< ranks of the strategy
  int spare = 0;    ///< wait in every run
  int reserve = 0;  ///< take the places of those that failed, between two runs
  [[nodiscard]] int all() const noexcept { return working + spare + reserve; }
  /// That must live before a trial in which so many fail: as many as in every other trial, and, where no new
  /// ones come, enough for a no-flip run behind it.
  [[nodiscard]] int needed_for_trial(int failing) const noexcept;
};

/// Of a worker of an arm when it starts. failing: see Launch.
[[nodiscard]] Processes processes_of(const design::Arm& arm, int failing);

/// bitrift-train: $BITRIFT_TRAIN_PROGRAM, else beside this executable, else on PATH. Throws Error(not_found).
[[nodiscard]] std::filesystem::path find_trainer();
/// bitrift itself, for other programs: $BITRIFT_PROGRAM, else as above. Throws Error(not_found).
[[nodiscard]] std::filesystem::path find_bitrift();

/// `bitrift-train serve`, to be connected to `socket_name`; output is appended to `log`, temporary files of
/// the launcher go to `scratch` (empty: wherever it likes).
[[nodiscard]] Command serve_command(const Launch& launch, const design::Arm& arm,
                                    const std::string& socket_name, const std::filesystem::path& log,
                                    const std::filesystem::path& scratch);

/// What starts a worker of the launch's runner: serve_command; `bitrift exec-worker` of this executable for
/// runner.exec; for runner.python `python -m bitrift.runner`, so that its descendants end with it.
[[nodiscard]] Command worker_command(const Launch& launch, const design::Arm& arm,
                                     const std::string& socket_name, const std::filesystem::path& log,
                                     const std::filesystem::path& scratch);

/// What the campaign's runner needs on this machine: finds bitrift-train, or the Python of a script. trains:
/// bitrift-train is needed in any case, to make a base. The base of the launch is left empty. Throws
/// Error(not_found).
[[nodiscard]] Launch launch_of(const design::CampaignSpec& spec, bool trains, bool ignore_file);

/// `python -m bitrift.runner` of a script, which writes to `out` which tensors of the launch's base it does
/// not load: {"unread": [...]}, or {"failed": "..."}. copy: a file that it writes and loads.
[[nodiscard]] Command unread_command(const Launch& launch, const design::Arm& arm,
                                     const std::filesystem::path& copy, const std::filesystem::path& out,
                                     const std::filesystem::path& log);

/// `bitrift-train train SPEC -o OUT`; ranks as the spec says.
[[nodiscard]] Command train_command(const std::filesystem::path& program, int ranks,
                                    const std::filesystem::path& spec, const std::filesystem::path& out,
                                    const std::filesystem::path& log);

/// `bitrift-train describe SPEC` under a strategy.
[[nodiscard]] Command describe_command(const std::filesystem::path& program, const record::Parallel& parallel,
                                       const std::filesystem::path& spec, const std::filesystem::path& log);

/// `bitrift-train resume BASE --precision P --steps 0 -o OUT`, serially.
[[nodiscard]] Command convert_command(const std::filesystem::path& program, const std::filesystem::path& base,
                                      const std::string& precision, const std::filesystem::path& out,
                                      const std::filesystem::path& log);

/// `bitrift-train resume` of an altered copy for so many epochs, in the way of the arm. replicas: that load
/// the copy, the others the base; empty: all.
[[nodiscard]] Command resume_command(const Launch& launch, const design::Arm& arm,
                                     const std::filesystem::path& copy, const std::vector<int>& replicas,
                                     std::int64_t epochs, const std::filesystem::path& trace,
                                     const std::filesystem::path& log);

/// The last lines of a log as one line, for messages, or the last one of bitrift's own program where a
/// launcher said more behind it; "" when there is none.
[[nodiscard]] std::string log_tail(const std::filesystem::path& log);

}  // namespace bitrift::campaign
