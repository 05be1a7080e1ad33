#include "campaign/worker/pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "campaign/plan/ends.h"
#include "campaign/plan/limits.h"
#include "campaign/worker/crew.h"
#include "campaign/worker/relaunch.h"
#include "core/error.h"
#include "core/log.h"
#include "record/provenance.h"
#include "record/stratum_name.h"

namespace bitrift::campaign {
namespace {

constexpr double alone_factor = 3;
constexpr std::size_t most_attempts = 3;
constexpr int most_doubts = 3;
constexpr double seconds_between_notes = 20;

double seconds_from(Clock::time_point moment) {
  return std::chrono::duration<double>(Clock::now() - moment).count();
}

}  // namespace

Pool::Pool(PoolOptions options, PoolObserver& observer, const Bases& bases)
    : options_(std::move(options)),
      observer_(observer),
      bases_(bases),
      queues_(options_.arms.size()),
      cores_(usable_cores()) {}

Pool::~Pool() {
  // All at once: they end in parallel while the first is waited for.
  for (const auto& crew : crews_) {
    if (crew->worker->state() != Worker::State::ended) crew->worker->strike();
  }
}

void Pool::run(std::vector<Job> jobs) {
  for (Job& job : jobs) {
    if (job.next < job.runs.size()) queues_.at(job.arm).push_back(std::move(job));
  }
  loop();
  if (!failed_.empty()) run_alone();
}

void Pool::run_alone() {
  alone_ = true;
  while (!failed_.empty()) {
    retire();
    Job job = std::move(failed_.front());
    failed_.pop_front();
    queues_.at(job.arm).push_back(std::move(job));
    loop();
  }
  retire();
  alone_ = false;
}

void Pool::loop() {
  while (true) {
    while (assign_one()) {
    }
    if (!busy() && !check_the_rest()) return;
    wait_for_news();
    watch_limits();
    for (const auto& crew : crews_) {
      crew->worker->step();
      while (auto event = crew->worker->next_event()) handle(*crew, *event);
    }
    std::erase_if(crews_, [](const auto& crew) { return crew->worker->state() == Worker::State::ended; });
    observer_.on_tick();
  }
}

void Pool::retire() {
  for (const auto& crew : crews_) crew->worker->quit();
  while (!crews_.empty()) {
    for (const auto& crew : crews_) crew->worker->step();
    std::erase_if(crews_, [](const auto& crew) { return crew->worker->state() == Worker::State::ended; });
    observer_.on_tick();
    if (!crews_.empty()) wait_for_news();
  }
}

void Pool::wait_for_news() {
  std::vector<pollfd> waiting;
  bool soon = false;
  for (const auto& crew : crews_) {
    crew->worker->add_to(waiting);
    const auto state = crew->worker->state();
    // The end of a process that never connected makes no descriptor readable.
    soon = soon || state == Worker::State::ending || state == Worker::State::quitting;
  }
  poll(waiting.data(), waiting.size(), soon ? 10 : 100);
}

bool Pool::busy() const {
  return std::any_of(crews_.begin(), crews_.end(), [](const auto& crew) { return crew->active(); }) ||
         std::any_of(queues_.begin(), queues_.end(), [](const auto& queue) { return !queue.empty(); });
}

bool Pool::assign_one() {
  for (const bool new_worker : {false, true}) {
    for (std::size_t arm = 0; arm < queues_.size(); ++arm) {
      if (queues_[arm].empty() || !fits(options_.arms[arm].parallel.ranks)) continue;
      // A relaunch starts new processes, and the time of that start is measured.
      if (!new_worker && queues_[arm].front().relaunched) continue;
      if (new_worker && !limit_parked()) return true;
      Crew* crew = new_worker ? &add_crew(arm) : idle_crew(arm);
      if (crew == nullptr) continue;
      crew->job = std::move(queues_[arm].front());
      queues_[arm].pop_front();
      if (crew->worker->state() == Worker::State::ready) feed(*crew);
      return true;
    }
  }
  return false;
}

bool Pool::fits(int ranks) const {
  int groups = 0;
  int used = 0;
  for (const auto& crew : crews_) {
    if (!crew->active()) continue;
    ++groups;
    used += options_.arms[crew->arm].parallel.ranks;
  }
  if (groups == 0) return true;
  if (alone_) return false;
  return options_.workers ? groups < *options_.workers : used + ranks <= cores_;
}

Crew* Pool::idle_crew(std::size_t arm) {
  const auto found = std::find_if(crews_.begin(), crews_.end(),
                                  [&](const auto& crew) { return crew->arm == arm && crew->idle(); });
  return found == crews_.end() ? nullptr : found->get();
}

Crew& Pool::add_crew(std::size_t arm) {
  const auto taken = [&](int slot) {
    return std::any_of(crews_.begin(), crews_.end(), [&](const auto& crew) { return crew->slot == slot; });
  };
  int slot = 0;
  while (taken(slot)) ++slot;
  return *crews_.emplace_back(start_crew(options_, bases_, arm, slot));
}

// False when a worker that has to go has rows that no no-flip run has confirmed yet: then that run was sent.
bool Pool::limit_parked() {
  const auto processes = [&](const Crew& crew) {
    return options_.launch.failing > 0 ? crew.worker->strength() : options_.arms[crew.arm].parallel.ranks;
  };
  int parked = 0;
  for (const auto& crew : crews_) parked += crew->idle() ? processes(*crew) : 0;
  for (const auto& crew : crews_) {  // the oldest first
    if (parked <= most_parked_ranks) return true;
    if (!crew->idle()) continue;
    if (!crew->unchecked.empty()) {
      check(*crew, order_of(crew->unchecked.back(), options_.orders));
      return false;
    }
    parked -= processes(*crew);
    crew->worker->quit();
  }
  return true;
}

void Pool::watch_limits() {
  if (Clock::now() < next_watch_) return;
  for (const auto& crew : crews_) {
    cut_log(crew->log);
    const auto state = crew->worker->state();
    const bool works =
        state == Worker::State::starting || state == Worker::State::ready || state == Worker::State::running;
    if (state == Worker::State::starting && seconds_from(crew->noted) >= seconds_between_notes) {
      crew->noted = Clock::now();
      observer_.on_slow_start(slow_start_text(*crew, options_));
    }
    if (options_.launch.ends_stopped && works) crew->worker->end_stopped();
    if (!options_.memory || !works) continue;
    if (resident_memory(crew->worker->pids()) > *options_.memory) {
      crew->worker->end_with(memory_failure(*options_.memory));
    }
  }
  next_watch_ = Clock::now() + std::chrono::milliseconds(500);
}

void Pool::feed(Crew& crew) {
  // It may have died right after its answer: its loss is the next thing that it is asked about.
  if (crew.worker->state() != Worker::State::ready) return;
  const RunKey& key = crew.job->runs[crew.job->next];
  if (too_weak(crew, key.kind)) return dismiss(crew);
  const int order = order_of(key, options_.orders);
  // The very first run is the golden run.
  if (!crew.checked && (observer_.golden_known(crew.arm, order) || !is_golden_run(key)))
    return check(crew, order);
  // A row must not depend on the worker that ran it: if a trial may end early, every worker has its order's
  // golden run.
  if (key.kind == record::TrialKind::trial && !crew.orders.contains(order)) return check(crew, order);
  if (crew.unchecked_in(order, options_.orders) >= options_.check_every) return check(crew, order);
  request(crew, key);
}

// Whether failed ranks have left a worker too few processes for a run of this kind.
bool Pool::too_weak(const Crew& crew, record::TrialKind kind) const {
  const int failing = options_.launch.failing;
  if (failing == 0) return false;
  const Processes all = processes_of(options_.arms[crew.arm], failing);
  const bool loses = kind == record::TrialKind::trial || kind == record::TrialKind::canary;
  return crew.worker->strength() < (loses ? all.needed_for_trial(failing) : all.working);
}

// The worker has done enough runs: its other runs go to another one. It confirms its rows first if it still
// can.
void Pool::dismiss(Crew& crew) {
  if (crew.job) queues_[crew.arm].push_front(std::move(*crew.job));
  crew.job.reset();
  const bool can_run =
      crew.worker->state() == Worker::State::ready && !too_weak(crew, record::TrialKind::control);
  if (can_run && !crew.unchecked.empty())
    return check(crew, order_of(crew.unchecked.back(), options_.orders));
  crew.worker->quit();
}

void Pool::check(Crew& crew, int order) {
  crew.checking = true;
  request(crew,
          {record::TrialKind::control, {options_.arms[crew.arm].name, record::control_stratum(order), 0}});
}

// When nothing is left to run: whether the last trials of some worker still have to be confirmed.
bool Pool::check_the_rest() {
  bool any = false;
  for (const auto& crew : crews_) {
    if (!crew->idle() || crew->unchecked.empty()) continue;
    check(*crew, order_of(crew->unchecked.back(), options_.orders));
    any = true;
  }
  return any;
}

void Pool::request(Crew& crew, const RunKey& key) {
  crew.current = {};
  crew.current.spec = observer_.expand(key);
  const record::TrialSpec& spec = crew.current.spec;
  crew.current.altered = crew.copy->alter(spec);
  if (options_.flip_nothing) crew.copy->restore();
  if (ends_with_a_rank(crew)) crew.copy->forget_runs();
  const double deadline = observer_.deadline_s(crew.arm) * (alone_ ? alone_factor : 1);
  crew.current.started = record::utc_now();
  crew.sent = Clock::now();
  crew.on_its_way = true;
  crew.worker->run(run_request(crew, options_), deadline, !ends_with_a_rank(crew));
}

void Pool::handle(Crew& crew, const WorkerEvent& event) {
  if (const auto* ready = std::get_if<WorkerReady>(&event)) {
    observer_.on_ready(crew.arm, ready->ready);
    if (crew.job && crew.job->relaunched)
      crew.job->relaunched->from.recoveries.back().times.respawn = seconds_from(crew.begun);
    if (crew.job) feed(crew);
  } else if (const auto* done = std::get_if<WorkerFinished>(&event)) {
    finished(crew, done->result);
  } else if (const auto* loss = std::get_if<WorkerLost>(&event)) {
    lost(crew, *loss);
  }
}

void Pool::finished(Crew& crew, const record::RunResult& result) {
  crew.current.seconds = seconds_from(crew.sent);
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
  take_result(crew, result);
  over(job, crew.current);
  if (is_golden_run(key)) crew.orders.insert(order_of(key, options_.orders));
  if (key.kind == record::TrialKind::trial || key.kind == record::TrialKind::jitter)
    crew.unchecked.push_back(key);
  if (job.next == job.runs.size()) crew.job.reset();
  // After a run that nobody could continue, the worker ends.
  const bool ends = crew.worker->state() == Worker::State::quitting;
  if (ends || (crew.worker->state() == Worker::State::ready && too_weak(crew, record::TrialKind::control)))
    return dismiss(crew);
  if (crew.job) feed(crew);
}

// The job's run has a result.
void Pool::over(Job& job, Ran& ran) {
  if (job.relaunched) {
    ran.started = job.relaunched->started;
    ran.seconds += job.relaunched->seconds;
  }
  ran.attempts = static_cast<int>(job.failures.size()) + 1;
  observer_.on_run(ran);
  job.failures.clear();
  job.relaunched.reset();
  ++job.next;
}

// Whether the worker ended because ranks failed on purpose. The run is then launched again, or has its
// result.
bool Pool::launch_again(Crew& crew) {
  if (!ends_with_a_rank(crew) || !crew.current.spec.faults.of_processes()) return false;
  auto loss = loss_of_run(crew, options_.arms[crew.arm].parallel.ranks, !options_.network);
  if (!loss) return false;
  Job job = std::exchange(crew.job, std::nullopt).value();
  if (crew.current.spec.recovery.value().kind == record::RecoveryKind::relaunch) {
    job.relaunched = std::move(loss->next);
  } else {
    crew.current.result = std::move(loss->ended);
    over(job, crew.current);
  }
  if (job.next < job.runs.size()) queues_[crew.arm].push_front(std::move(job));
  return true;
}

bool Pool::ends_with_a_rank(const Crew& crew) const {
  return options_.arms[crew.arm].recovery.kind == record::RecoveryKind::relaunch;
}

// Another start of the user's own program would take just as long.
bool Pool::own_program_is_slow(const WorkerLost& loss) const {
  return options_.launch.runner.kind != record::RunnerKind::train &&
         loss.failure.reason == record::FailureReason::hang;
}

void Pool::lost(Crew& crew, const WorkerLost& loss) {
  const bool in_run = crew.on_its_way && !crew.checking;
  crew.current.seconds = seconds_from(crew.sent);
  if (in_run && launch_again(crew)) return;
  Incident incident{Phase::run,   "", options_.arms[crew.arm].name, crew.slot, crew.worker->pid(),
                    loss.failure, 0};
  if (!in_run) incident.phase = crew.checking ? Phase::check : crew.checked ? Phase::idle : Phase::start;
  if (in_run) {
    incident.id = crew.current.spec.id.text();
    incident.attempt = static_cast<int>(crew.job->failures.size()) + 1;
  }
  observer_.on_incident(incident);
  if (!in_run) {
    if (crew.checking && !crew.unchecked.empty())
      doubt(crew, std::string("its check ended: ") + name_of(loss.failure.reason));
    if (crew.job) queues_[crew.arm].push_front(std::move(*crew.job));
    crew.job.reset();
    if (!crew.checked && (++failed_starts_ >= options_.launch.failing_starts() || own_program_is_slow(loss)))
      could_not_start(crew, loss, options_);
    return;
  }
  crew.current.failure = loss.failure;
  crew.current.failure->detail = without_place(loss.failure.detail, crew.copy->path());
  Job job = std::exchange(crew.job, std::nullopt).value();
  run_failed(std::move(job), crew.current);
}

void Pool::run_failed(Job job, const Ran& attempt) {
  const record::Failure& failure = *attempt.failure;
  const bool again = std::any_of(job.failures.begin(), job.failures.end(),
                                 [&](const auto& earlier) { return same_failure(earlier, failure); });
  job.failures.push_back(failure);
  job.relaunched.reset();
  if (again || job.failures.size() >= most_attempts) {
    Ran ran = attempt;
    ran.attempts = static_cast<int>(job.failures.size());
    observer_.on_run(ran);
    job.failures.clear();
    ++job.next;
  }
  if (job.next < job.runs.size()) failed_.push_back(std::move(job));
}

void Pool::judge_check(Crew& crew, const record::RunResult& result) {
  const RunKey key{crew.current.spec.kind, crew.current.spec.id};
  const int order = order_of(key, options_.orders);
  const auto difference = observer_.on_check(crew.arm, order, result);
  if (!difference) {
    crew.checked = true;
    crew.orders.insert(order);
    // It says nothing about the other orders, whose golden runs the worker keeps separately.
    std::erase_if(crew.unchecked, [&](const RunKey& run) { return order_of(run, options_.orders) == order; });
    if (crew.job) feed(crew);
    return;
  }
  // A fresh worker that differs is not an accident; one that was right before may have met a fault of its
  // own.
  if (crew.unchecked.empty() || ++doubts_ > most_doubts) throw Misbehaviour(*difference);
  doubt(crew, *difference);
  if (crew.job) queues_.at(crew.arm).push_front(std::move(*crew.job));
  crew.job.reset();
  crew.worker->kill();
}

void Pool::doubt(Crew& crew, const std::string& why) {
  observer_.on_doubt(crew.arm, crew.unchecked, why);
  for (RunKey& key : crew.unchecked) queues_.at(crew.arm).push_back({crew.arm, {std::move(key)}});
  crew.unchecked.clear();
}

}  // namespace bitrift::campaign
