// How to find and call the programs that need LibTorch and MPI.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/process/subprocess.h"
#include "design/campaign_spec.h"

namespace bitrift::campaign {

/// The settings that all workers of a campaign share.
struct Launch {
  std::filesystem::path program = {};  ///< bitrift-train
  std::filesystem::path base = {};     ///< of the worker's arm: the reference for "changed"
  std::string wrapper = {};  ///< CampaignSpec::launch: "{ranks}" and "{command}" are replaced; "" = none
  bool ignore_file = false;  ///< drill: the worker resumes from the base, whatever file it gets
  record::RunnerSpec runner = {};  ///< CampaignSpec::runner; kind train: `program` trains
  Command python = {};             ///< runner.python: the Python that runs the script, see script_python()
  int failing = 0;                 ///< ranks that fail in a trial; 0: bits are altered and ranks do not fail
  bool detector = false;           ///< failing: stopped processes are to be noticed too
  bool ends_stopped = false;       ///< the pool ends processes that a signal has stopped, see Worker
  /// failing: the bitrift whose exec-guard starts the worker, so that spawned processes that have not
  /// connected end with it too; "": none.
  std::filesystem::path guard = {};

  /// The number of starts of a worker that may fail in a row before the pool gives up. Open MPI's failure
  /// detector crashes in about one start in ten (docs/rank-failure.md).
  [[nodiscard]] int failing_starts() const noexcept { return detector ? 5 : 2; }
};

/// The number of processes of a worker.
struct Processes {
  int working = 1;  ///< ranks of the strategy
  int spare = 0;    ///< wait in every run
  int reserve = 0;  ///< take the places of failed ranks, between two runs
  [[nodiscard]] int all() const noexcept { return working + spare + reserve; }
  /// How many processes must live before a trial in which this many fail: as many as in every other trial
  /// and, if no new ones come, enough for a no-flip run after it.
  [[nodiscard]] int needed_for_trial(int failing) const noexcept;
};

/// The same for a worker of an arm when it starts. failing: see Launch.
[[nodiscard]] Processes processes_of(const design::Arm& arm, int failing);

/// bitrift-train: $BITRIFT_TRAIN_PROGRAM, else the one next to this executable, else the one on PATH. Throws
/// Error(not_found).
[[nodiscard]] std::filesystem::path find_trainer();
/// bitrift itself, for other programs: $BITRIFT_PROGRAM, otherwise as above. Throws Error(not_found).
[[nodiscard]] std::filesystem::path find_bitrift();

/// `bitrift-train serve`, which connects to `socket_name`; output is appended to `log`, temporary files of
/// the launcher go to `scratch` (empty: the launcher chooses).
[[nodiscard]] Command serve_command(const Launch& launch, const design::Arm& arm,
                                    const std::string& socket_name, const std::filesystem::path& log,
                                    const std::filesystem::path& scratch);

/// The command that starts a worker of the launch's runner: serve_command; `bitrift exec-worker` of this
/// executable for runner.exec; for runner.python `python -m bitrift.runner`, so that its descendants end with
/// it.
[[nodiscard]] Command worker_command(const Launch& launch, const design::Arm& arm,
                                     const std::string& socket_name, const std::filesystem::path& log,
                                     const std::filesystem::path& scratch);

/// Finds what the campaign's runner needs on this machine: bitrift-train, or the Python of a script. trains:
/// bitrift-train is needed in any case, to make a base. The base of the launch is left empty. Throws
/// Error(not_found).
[[nodiscard]] Launch launch_of(const design::CampaignSpec& spec, bool trains, bool ignore_file);

/// `python -m bitrift audit resume` of a script as the arm starts it, which writes its findings to `out` as
/// JSON.
[[nodiscard]] Command audit_command(const Launch& launch, const design::Arm& arm,
                                    const std::filesystem::path& out, const std::filesystem::path& log);

/// `python -m bitrift.runner` of a script, which writes to `out` which tensors of the launch's base it does
/// not load, and the weights at both ends of a list on which its evaluation does not depend: {"tensors":
/// {"unread": [...], "unused": [...]}}, or {"failed": "..."}. copy: a file that it writes and loads. weights:
/// a file with the list.
[[nodiscard]] Command unread_command(const Launch& launch, const design::Arm& arm,
                                     const std::filesystem::path& copy, const std::filesystem::path& weights,
                                     const std::filesystem::path& out, const std::filesystem::path& log);

/// The same, which trains one epoch from the launch's base and writes {KEY: the fact} to `out`; see
/// design::FactNeeded::key.
[[nodiscard]] Command fact_command(const Launch& launch, const design::Arm& arm, const std::string& key,
                                   const std::filesystem::path& out, const std::filesystem::path& log);

/// `bitrift-train train SPEC -o OUT`, with the ranks of the spec.
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

/// `bitrift-train resume` of an altered copy for this many epochs, with the strategy of the arm. replicas:
/// those that load the copy, while the others load the base; empty: all.
[[nodiscard]] Command resume_command(const Launch& launch, const design::Arm& arm,
                                     const std::filesystem::path& copy, const std::vector<int>& replicas,
                                     std::int64_t epochs, const std::filesystem::path& trace,
                                     const std::filesystem::path& log);

/// The last lines of a log as one line, for messages. If a launcher wrote more after them, the last line of
/// bitrift's own program; "" when there is none.
[[nodiscard]] std::string log_tail(const std::filesystem::path& log);

}  // namespace bitrift::campaign
