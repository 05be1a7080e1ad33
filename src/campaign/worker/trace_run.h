// One run of a campaign step by step: the trace that `bitrift-train resume` writes of it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "campaign/launch/launch.h"
#include "ckpt/reader.h"
#include "record/trial.h"

namespace bitrift::campaign {

struct TraceRequest {
  Launch launch;
  design::Arm arm;
  record::TrialSpec run;
  std::filesystem::path copy;   ///< where the altered file may lie; removed afterwards
  std::filesystem::path trace;  ///< to be written (docs/data-order.md, "Trace"); replaced when it is there
  std::filesystem::path log;
  double deadline_s = 0;  ///< for the whole process
};

/// Throws Error(unsupported) for what cannot be traced: runs of a command of the user's (runner.exec), and
/// runs in a data order that no checkpoint holds (envelope and held-out runs, golden orders above 0).
void check_traceable(const design::CampaignSpec& spec, const record::TrialSpec& run);

/// Resumes in a process of its own from the altered file, read whole, to the end: neither what a worker
/// keeps in memory nor an early end is involved. nullopt when a trace was written, else why there is none
/// (the process died, or the file was refused). Throws Error(not_found | io), and Interrupted.
[[nodiscard]] std::optional<std::string> write_trace(const ckpt::Reader& base, const TraceRequest& request);

/// How a trace differs from a row: number of steps, replica 0's evaluations and, where the trace shows it,
/// the final digest. nullopt when it tells the same. Throws Error(bad_file) when the file is no trace.
[[nodiscard]] std::optional<std::string> trace_difference(const std::filesystem::path& trace,
                                                          const record::RunResult& row);

}  // namespace bitrift::campaign
