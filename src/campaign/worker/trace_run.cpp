#include "campaign/worker/trace_run.h"

#include <chrono>
#include <fstream>
#include <system_error>
#include <vector>

#include "campaign/plan/ends.h"
#include "campaign/worker/private_copy.h"
#include "core/error.h"
#include "core/process/subprocess.h"
#include "spec/optimizer_parts.h"

namespace bitrift::campaign {
namespace {

using record::Json;

// An interrupt and the deadline end the wait. nullopt: the deadline passed.
std::optional<ExitStatus> wait_for(Subprocess& process, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto limit =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  while (Clock::now() < limit) {
    if (const auto status = process.wait(0.1)) return status;
    if (!InterruptGuard::raised()) continue;
    process.terminate(2);
    InterruptGuard::check();
  }
  process.terminate(2);
  return std::nullopt;
}

Json header_of(const Json& line, const std::filesystem::path& trace) {
  if (line.value("schema", "") == "bitrift/trace/1") return line;
  fail(ErrorCode::bad_file, "{}: not a trace of bitrift-train", trace.string());
}

// A trace describes a run from a file: faults during the run are not in it.

void refuse_on_the_way(const std::string&, const record::FaultList&) {}

void refuse_on_the_way(const std::string& id, const std::vector<record::ProcessFault>&) {
  fail(ErrorCode::unsupported,
       "--trace: {}: a rank fails in it, and a trace ends with its rank; name a run in which none does", id);
}

void refuse_on_the_way(const std::string& id, const std::vector<record::LinkFault>& faults) {
  fail(ErrorCode::unsupported,
       "--trace: {}: a message is altered in it; trace it with bitrift-train resume --flip-message {}", id,
       to_text(faults.front()));
}

void refuse_on_the_way(const std::string& id, const std::vector<record::FailedLink>& links) {
  fail(ErrorCode::unsupported,
       "--trace: {}: a link fails in it; make it with bitrift-train resume --{}-link {}", id,
       links.front().kind == record::LinkFailure::dead ? "kill" : "slow", to_text(links.front()));
}

void refuse_on_the_way(const std::string& id, const std::vector<record::ComputeFault>& faults) {
  fail(ErrorCode::unsupported,
       "--trace: {}: a number is struck while it is computed; trace it with bitrift-train resume --strike {}",
       id, to_text(faults.front()));
}

}  // namespace

void check_traceable(const design::CampaignSpec& spec, const record::TrialSpec& run) {
  if (spec.runner.kind != record::RunnerKind::train) {
    fail(ErrorCode::unsupported,
         "--trace: the runs of this campaign are those of your own program (runner), which writes no trace");
  }
  run.faults.visit([&](const auto& faults) { refuse_on_the_way(run.id.text(), faults); });
  if (run.order_seed) {
    fail(ErrorCode::unsupported,
         "--trace: {} runs in the data order of seed {}, which no checkpoint holds; name a run in the base's "
         "own "
         "order: a canary, control/0{}",
         run.id.text(), *run.order_seed,
         spec.orders == 1
             ? ", a trial or a jitter run"
             : fmt::format(", or a trial or jitter run whose draw is a multiple of {}", spec.orders));
  }
}

std::optional<std::string> write_trace(const ckpt::Reader& base, const TraceRequest& request) {
  PrivateCopy copy(base, request.copy);
  copy.alter(request.run);
  std::error_code ignored;
  std::filesystem::remove(request.trace, ignored);
  std::filesystem::remove(request.log, ignored);
  Subprocess process(resume_command(request.launch, request.arm, copy.path(), request.run.replicas,
                                    request.run.epochs, std::filesystem::absolute(request.trace),
                                    request.log));
  const auto status = wait_for(process, request.deadline_s);
  if (std::filesystem::exists(request.trace)) return std::nullopt;
  const std::string tail = log_tail(request.log);
  return fmt::format("{}{}{}",
                     status ? "bitrift-train ended with " + status->text()
                            : fmt::format("bitrift-train was ended after {:.0f} s", request.deadline_s),
                     tail.empty() ? "" : ": ", tail);
}

std::optional<std::string> trace_difference(const std::filesystem::path& trace,
                                            const record::RunResult& row) {
  std::ifstream file(trace);
  Json header, last_step;
  std::int64_t steps = 0;
  std::vector<Json> evaluations;
  try {
    for (std::string text; std::getline(file, text);) {
      Json line = Json::parse(text);
      if (header.is_null()) {
        header = header_of(line, trace);
      } else if (line.contains("evaluation")) {
        evaluations.push_back(line["evaluation"]);
      } else {
        last_step = std::move(line);
        ++steps;
      }
    }
    if (header.is_null()) header_of(Json::object(), trace);
    if (steps != row.steps) return fmt::format("the trace has {} steps, the row {}", steps, row.steps);
    const auto& expected = row.replicas.empty() ? std::vector<record::Evaluation>() : row.replicas.front();
    if (evaluations.size() != expected.size()) {
      return fmt::format("the trace has {} evaluations, the row {}", evaluations.size(), expected.size());
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const Json of_row = record::to_json(expected[i]);
      if (evaluations[i] == of_row) continue;
      return fmt::format("evaluation {} is {} in the trace and {} in the row", i + 1, evaluations[i].dump(),
                         of_row.dump());
    }
    // A run that stops in the middle of a step, or a plateau schedule that uses an evaluation, changes the
    // state after the last step's line.
    const auto schedule = header.at("spec").value(Json::json_pointer("/schedule/name"), std::string());
    const bool plateau = find_named<record::ScheduleName>(schedule) == record::ScheduleName::plateau;
    if (row.status != record::RunStatus::done || plateau) return std::nullopt;
    const Json& end = last_step.is_null() ? header : last_step;
    if (end.at("digest") == row.final_digest) return std::nullopt;
    return fmt::format("the final digest is {} in the trace and {} in the row", end.at("digest").dump(),
                       row.final_digest);
  } catch (const Json::exception& error) {
    fail(ErrorCode::bad_file, "{}: not a trace ({})", trace.string(), error.what());
  }
}

}  // namespace bitrift::campaign
