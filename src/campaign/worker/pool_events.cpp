// What workers say, and what becomes of their runs.
#include <algorithm>
#include <chrono>
#include <utility>

#include "campaign/plan/ends.h"
#include "campaign/worker/crew.h"
#include "core/error.h"

namespace bitrift::campaign {
namespace {

constexpr std::size_t most_attempts = 3;
constexpr int most_doubts = 3;

// Where a private copy lies says nothing about the run, and would make equal rows differ.
std::string without_place(std::string text, const std::filesystem::path& copy) {
  const std::string place = copy.string();
  for (auto at = text.find(place); at != std::string::npos; at = text.find(place)) {
    text.replace(at, place.size(), "the altered copy");
  }
  return text;
}

bool same_failure(const record::Failure& first, const record::Failure& second) {
  return first.reason == second.reason && first.signal == second.signal;
}

}  // namespace

void Pool::handle(Crew& crew, const WorkerEvent& event) {
  if (const auto* ready = std::get_if<WorkerReady>(&event)) {
    observer_.on_ready(crew.arm, ready->ready);
    if (crew.job) feed(crew);
  } else if (const auto* done = std::get_if<WorkerFinished>(&event)) {
    finished(crew, done->result);
  } else if (const auto* loss = std::get_if<WorkerLost>(&event)) {
    lost(crew, *loss);
  }
}

void Pool::finished(Crew& crew, const record::RunResult& result) {
  crew.current.seconds = std::chrono::duration<double>(Clock::now() - crew.sent).count();
  crew.on_its_way = false;
  if (result.id != crew.current.spec.id.text()) {
    fail(ErrorCode::internal, "a worker answered {} when it was asked for {}", result.id,
         crew.current.spec.id.text());
  }
  crew.copy->restore();
  failed_starts_ = 0;
  if (std::exchange(crew.checking, false)) return judge_check(crew, result);
  crew.checked = true;
  const RunKey key{crew.current.spec.kind, crew.current.spec.id};
  Job& job = *crew.job;
  crew.current.result = result;
  crew.current.result->detail = without_place(result.detail, crew.copy->path());
  crew.current.attempts = static_cast<int>(job.failures.size()) + 1;
  observer_.on_run(crew.current);
  if (is_golden_run(key)) crew.orders.insert(order_of(key, options_.orders));
  if (key.kind == record::TrialKind::trial || key.kind == record::TrialKind::jitter)
    crew.unchecked.push_back(key);
  job.failures.clear();
  if (++job.next == job.runs.size()) {
    crew.job.reset();
  } else {
    feed(crew);
  }
}

void Pool::lost(Crew& crew, const WorkerLost& loss) {
  const bool in_run = crew.on_its_way && !crew.checking;
  Incident incident{"run", "", options_.arms[crew.arm].name, crew.slot, crew.worker->pid(), loss.failure, 0};
  if (!in_run) incident.phase = crew.checking ? "check" : crew.checked ? "idle" : "start";
  if (in_run) {
    incident.id = crew.current.spec.id.text();
    incident.attempt = static_cast<int>(crew.job->failures.size()) + 1;
  }
  observer_.on_incident(incident);
  if (!in_run) {
    if (crew.checking && !crew.unchecked.empty()) doubt(crew, "its check ended: " + loss.failure.reason);
    if (crew.job) queues_[crew.arm].push_front(std::move(*crew.job));
    crew.job.reset();
    if (!crew.checked && ++failed_starts_ >= 2) could_not_start(crew, loss);
    return;
  }
  crew.current.seconds = std::chrono::duration<double>(Clock::now() - crew.sent).count();
  crew.current.failure = loss.failure;
  crew.current.failure->detail = without_place(loss.failure.detail, crew.copy->path());
  Job job = std::move(*crew.job);
  crew.job.reset();
  run_failed(std::move(job), crew.current);
}

void Pool::run_failed(Job job, const Ran& attempt) {
  const record::Failure& failure = *attempt.failure;
  const bool again = std::any_of(job.failures.begin(), job.failures.end(),
                                 [&](const auto& earlier) { return same_failure(earlier, failure); });
  job.failures.push_back(failure);
  if (again || job.failures.size() >= most_attempts) {
    Ran ran = attempt;
    ran.attempts = static_cast<int>(job.failures.size());
    observer_.on_run(ran);
    job.failures.clear();
    ++job.next;
  }
  if (job.next < job.runs.size()) failed_.push_back(std::move(job));
}

void Pool::could_not_start(Crew& crew, const WorkerLost& loss) {
  const std::string why = !loss.failure.detail.empty() ? loss.failure.detail
                          : loss.failure.reason == "hang"
                              ? fmt::format("it was not ready after {} s", startup_deadline_s)
                              : loss.failure.reason;
  const std::string tail = log_tail(crew.log);
  // Exit code 2 is the worker's own word that its input is at fault; a program that is not there is the
  // call's fault too.
  const bool users_fault = loss.status && (loss.status->code == 2 || loss.status->code == 127);
  fail(users_fault ? ErrorCode::bad_input : ErrorCode::internal,
       "arm '{}': workers cannot be started: {}; {} says: {}", options_.arms[crew.arm].name, why,
       crew.log.string(), tail.empty() ? "nothing" : tail);
}

void Pool::judge_check(Crew& crew, const record::RunResult& result) {
  const RunKey key{crew.current.spec.kind, crew.current.spec.id};
  const int order = order_of(key, options_.orders);
  const auto difference = observer_.on_check(crew.arm, order, result);
  if (!difference) {
    crew.checked = true;
    crew.orders.insert(order);
    // It says nothing of the other orders, whose golden runs the worker keeps apart.
    std::erase_if(crew.unchecked, [&](const RunKey& run) { return order_of(run, options_.orders) == order; });
    if (crew.job) feed(crew);
    return;
  }
  // A fresh worker that differs is no accident; one that was right before may have met a fault of its own.
  if (crew.unchecked.empty() || ++doubts_ > most_doubts) throw Misbehaviour(*difference);
  doubt(crew, *difference);
  if (crew.job) queues_.at(crew.arm).push_front(std::move(*crew.job));
  crew.job.reset();
  crew.worker->kill();
}

void Pool::doubt(Crew& crew, const std::string& why) {
  observer_.on_doubt(crew.arm, crew.unchecked, why);
  for (RunKey& key : crew.unchecked) queues_.at(crew.arm).push_back({crew.arm, {std::move(key)}, 0, {}});
  crew.unchecked.clear();
}

}  // namespace bitrift::campaign
