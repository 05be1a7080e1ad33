#include "campaign/pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <sched.h>

#include "campaign/scratch.h"
#include "core/error.h"
#include "core/log.h"
#include "record/provenance.h"

namespace bitrift::campaign {
namespace {

constexpr double startup_deadline_s = 120;
constexpr double alone_factor = 3;
constexpr std::size_t most_attempts = 3;
// An idle worker blocks on its socket: it costs memory (about 330 MB a rank), no time.
constexpr int most_parked_ranks = 6;

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

// A worker, its private copy, and what it is at.
struct Pool::Crew {
  std::size_t arm = 0;
  int slot = 0;
  std::filesystem::path log;
  std::unique_ptr<Scratch> scratch;
  std::unique_ptr<PrivateCopy> copy;
  std::unique_ptr<Worker> worker;
  bool checked = false;     // its no-flip run equals the golden run
  bool checking = false;    // that run is under way
  bool on_its_way = false;  // a request was sent and is not answered
  std::optional<Job> job;
  Ran current;
  Clock::time_point sent;

  [[nodiscard]] bool idle() const { return !job && (worker->state() == Worker::State::ready); }
  [[nodiscard]] bool active() const { return job.has_value(); }
};

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

Pool::Pool(PoolOptions options, PoolObserver& observer, const ckpt::Reader& base)
    : options_(std::move(options)),
      observer_(observer),
      base_(base),
      queues_(options_.arms.size()),
      cores_(usable_cores()) {}

Pool::~Pool() = default;

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
    if (!busy()) return;
    wait_for_news();
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
    // The end of a process makes no descriptor readable when it never connected.
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
      Crew* crew = new_worker ? &start_crew(arm) : idle_crew(arm);
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

Pool::Crew* Pool::idle_crew(std::size_t arm) {
  const auto found = std::find_if(crews_.begin(), crews_.end(),
                                  [&](const auto& crew) { return crew->arm == arm && crew->idle(); });
  return found == crews_.end() ? nullptr : found->get();
}

Pool::Crew& Pool::start_crew(std::size_t arm) {
  limit_parked();
  const auto taken = [&](int slot) {
    return std::any_of(crews_.begin(), crews_.end(), [&](const auto& crew) { return crew->slot == slot; });
  };
  auto crew = std::make_unique<Crew>();
  while (taken(crew->slot)) ++crew->slot;
  crew->arm = arm;
  const WorkerPlace place = options_.place_of(crew->slot);
  crew->log = place.log;
  crew->copy = std::make_unique<PrivateCopy>(base_, place.copy);
  crew->scratch = std::make_unique<Scratch>(place.scratch);
  const record::Parallel& parallel = options_.arms[arm].parallel;
  Listener listener;
  const Command command =
      serve_command(options_.launch, parallel, listener.name(), crew->log, crew->scratch->path());
  crew->worker = std::make_unique<Worker>(std::move(listener), command, parallel.ranks, startup_deadline_s);
  crews_.push_back(std::move(crew));
  return *crews_.back();
}

void Pool::limit_parked() {
  const auto ranks = [&](const Crew& crew) { return options_.arms[crew.arm].parallel.ranks; };
  int parked = 0;
  for (const auto& crew : crews_) parked += crew->idle() ? ranks(*crew) : 0;
  for (const auto& crew : crews_) {  // the oldest first
    if (parked <= most_parked_ranks) return;
    if (!crew->idle()) continue;
    parked -= ranks(*crew);
    crew->worker->quit();
  }
}

void Pool::feed(Crew& crew) {
  const RunKey& key = crew.job->runs[crew.job->next];
  const bool is_golden = key.kind == record::TrialKind::control && key.id.stratum != zero_step_stratum;
  if (!crew.checked && (observer_.golden_known(crew.arm) || !is_golden)) {
    crew.checking = true;
    request(crew, {record::TrialKind::control, {options_.arms[crew.arm].name, "control", 0}});
    return;
  }
  request(crew, key);
}

void Pool::request(Crew& crew, const RunKey& key) {
  crew.current = {};
  crew.current.spec = observer_.expand(key);
  const record::TrialSpec& spec = crew.current.spec;
  if (!options_.flip_nothing) crew.copy->alter(spec.faults);
  const double deadline = observer_.deadline_s(crew.arm) * (alone_ ? alone_factor : 1);
  crew.current.started = record::utc_now();
  crew.sent = Clock::now();
  crew.on_its_way = true;
  crew.worker->run({spec.id.text(), crew.copy->path().string(), spec.epochs, spec.order_seed, spec.drill},
                   deadline);
}

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
  crew.checked = true;
  failed_starts_ = 0;
  if (std::exchange(crew.checking, false)) {
    observer_.on_check(crew.arm, result);
    return feed(crew);
  }
  Job& job = *crew.job;
  crew.current.result = result;
  crew.current.result->detail = without_place(result.detail, crew.copy->path());
  crew.current.attempts = static_cast<int>(job.failures.size()) + 1;
  observer_.on_run(crew.current);
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

}  // namespace bitrift::campaign
