// The options that say what a run does when a rank fails, and which ranks are to fail.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "launch/hang_watch.h"
#include "record/fault/process_fault.h"
#include "record/recovery.h"
#include "spec/parallel.h"

namespace bitrift::cli {

struct RecoveryArguments {
  std::optional<std::string> on_failure, state, batch;
  std::optional<int> spares;
  std::optional<std::int64_t> snapshot_every;
  std::optional<std::int64_t> expand_after;
  std::vector<std::string> forget, kills;
  std::optional<std::string> detect_hang;  ///< seconds, auto or off
};

void add_recovery_options(CLI::App* command, RecoveryArguments& arguments);

/// All but checkpoint_every. Throws Error(bad_input) for what does not fit the kind of recovery or the ranks.
[[nodiscard]] record::RecoverySpec chosen_recovery(const RecoveryArguments& arguments,
                                                   const record::Parallel& parallel);
/// kind: of the recovery; all but none watch by default. started_here: bitrift-train started the ranks, or
/// will. Throws Error(bad_input) if --detect-hang cannot watch them, or names no limit.
[[nodiscard]] HangLimit chosen_hang_limit(const RecoveryArguments& arguments, record::RecoveryKind kind,
                                          const record::Parallel& parallel, bool started_here);
/// Throws Error(bad_input) for texts that are not faults, and ranks that the run does not have.
[[nodiscard]] std::vector<record::ProcessFault> chosen_kills(const RecoveryArguments& arguments,
                                                             const record::Parallel& parallel);

}  // namespace bitrift::cli
