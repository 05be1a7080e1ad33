// The trace of one run of a campaign, step by step, as `bitrift-train resume` writes it.
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
  std::filesystem::path copy;   ///< the place of the altered file; removed afterwards
  std::filesystem::path trace;  ///< the trace to write (docs/data-order.md, "Trace"); an existing file is
                                ///< replaced
  std::filesystem::path log;
  double deadline_s = 0;  ///< for the whole process
};

/// Throws Error(unsupported) for runs that cannot be traced: those of a user's command (runner.exec), and
/// those in a data order that no checkpoint holds (envelope and held-out runs, golden orders above 0).
void check_traceable(const design::CampaignSpec& spec, const record::TrialSpec& run);

/// Resumes in its own process from the altered file, read whole, to the end: neither a worker's memory nor an
/// early end is involved. nullopt when a trace was written; otherwise why there is none (the process died, or
/// the file was refused). Throws Error(not_found | io), and Interrupted.
[[nodiscard]] std::optional<std::string> write_trace(const ckpt::Reader& base, const TraceRequest& request);

/// How a trace differs from a row: number of steps, replica 0's evaluations and, if the trace has it, the
/// final digest. nullopt when they agree. Throws Error(bad_file) when the file is not a trace.
[[nodiscard]] std::optional<std::string> trace_difference(const std::filesystem::path& trace,
                                                          const record::RunResult& row);

}  // namespace bitrift::campaign
