#include "campaign/worker/worker.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include <signal.h>

#include "core/error.h"

namespace bitrift::campaign {
namespace {

using record::FailureReason;

// A rank that reports an exception may only be the echo of another that died by a signal.
constexpr double grace_after_report_s = 0.3;
// A launcher needs a moment to notice a dead rank and to pass its signal on as exit code 128 + n.
constexpr double grace_after_silence_s = 2.0;
constexpr double quit_grace_s = 5.0;
// A rank that reads at all needs less time than this for the next piece of a long line.
constexpr int read_grace_ms = 1000;

Clock::time_point in(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

record::Failure signal_failure(int signal) {
  return {FailureReason::signal, signal > 0 ? strsignal(signal) : "", signal};
}

}  // namespace

record::Failure best_account(const std::vector<record::Failure>& accounts,
                             const std::optional<ExitStatus>& status) {
  const auto told = [&](auto fits) { return std::find_if(accounts.begin(), accounts.end(), fits); };
  const auto signal = told([](const auto& one) {
    return one.reason == FailureReason::signal && one.signal != SIGTERM && one.signal != 0;
  });
  if (signal != accounts.end()) return signal_failure(signal->signal);
  // An end that follows a silent end is its echo: a peer lost its partner, or the launcher told it to stop.
  if (!accounts.empty() && accounts.front().reason != FailureReason::signal) return accounts.front();
  if (status && status->signal != 0) return signal_failure(status->signal);
  if (status && status->code > 128 && status->code <= 128 + 64) return signal_failure(status->code - 128);
  if (status)
    return {FailureReason::exception, fmt::format("the worker ended by itself with {}", status->text()), 0};
  return signal_failure(0);
}

Worker::Worker(Listener listener, const Command& command, int ranks, double start_deadline_s)
    : listener_(std::move(listener)), process_(command), ranks_(ranks), deadline_(in(start_deadline_s)) {}

Worker::~Worker() {
  if (state_ != State::ended) kill();
}

void Worker::run(const record::RunRequest& request, double deadline_s, bool survives) {
  if (state_ != State::ready)
    fail(ErrorCode::internal, "a worker was sent {} while it was not ready", request.id);
  const std::string line = record::to_line(std::optional<record::RunRequest>(request));
  for (Connection& connection : connections_) connection.send(line, read_grace_ms);
  state_ = State::running;
  allowed_ = known_ + (survives ? request.faults.processes().size() : 0);
  deadline_ = in(deadline_s);
}

int Worker::strength() const {
  const std::size_t open = connections_.size() - closed();
  const std::size_t ending = known_ > buried_ ? known_ - buried_ : 0;
  return static_cast<int>(open > ending ? open - ending : 0);
}

std::string Worker::waits_for() const {
  if (greeted_ < ranks_) return fmt::format("{} of {} processes have connected", greeted_, ranks_);
  return ranks_ == 1 ? "the process has connected, and still loads"
                     : "all processes have connected, and still load";
}

void Worker::quit() {
  if (state_ == State::ended || state_ == State::quitting) return;
  if (state_ != State::ready) return kill();
  const std::string line = record::to_line(std::nullopt);
  for (Connection& connection : connections_) connection.send(line, read_grace_ms);
  state_ = State::quitting;
  deadline_ = in(quit_grace_s);
}

void Worker::kill() {
  using namespace std::chrono_literals;
  state_ = State::ended;
  strike();
  process_.wait(2);
  process_.signal_group(SIGKILL);  // processes that were forked while the first signal was on its way
  const auto limit = in(2);
  const auto gone = [](const Connection& connection) { return connection.peer_ended(); };
  while (!std::all_of(connections_.begin(), connections_.end(), gone) && Clock::now() < limit) {
    std::this_thread::sleep_for(1ms);
  }
  connections_.clear();
}

void Worker::strike() noexcept {
  process_.signal_group(SIGKILL);
  for (const Connection& connection : connections_) connection.kill_peer();
}

void Worker::end_with(const record::Failure& failure) {
  kill();
  events_.emplace_back(WorkerLost{failure, std::nullopt});
}

void Worker::end_stopped() {
  std::set<pid_t> stopped;
  for (const Connection& connection : connections_) {
    if (!connection.peer() || process_state(*connection.peer()) != 'T') continue;
    if (stopped_.contains(*connection.peer())) connection.kill_peer();
    stopped.insert(*connection.peer());
  }
  stopped_ = std::move(stopped);
}

std::vector<pid_t> Worker::pids() const {
  std::vector<pid_t> pids = {process_.pid()};
  for (const Connection& connection : connections_) {
    if (connection.peer()) pids.push_back(*connection.peer());
  }
  return pids;
}

void Worker::add_to(std::vector<pollfd>& waiting) const {
  if (state_ == State::ended) return;
  listener_.add_to(waiting);
  for (const Connection& connection : connections_) {
    if (connection.open()) waiting.push_back({connection.descriptor(), POLLIN, 0});
  }
}

void Worker::step() {
  if (state_ == State::ended) return;
  receive();
  check_process();
  check_deadline();
}

std::optional<WorkerEvent> Worker::next_event() {
  if (events_.empty()) return std::nullopt;
  WorkerEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void Worker::receive() {
  read_connections();
  // A message that another rank sent before an end may have arrived after its connection was looked at.
  if (closed() != mourned_) read_connections();
  // A process that joined during a run connected before its answer was sent.
  for (Connection& connection : listener_.accept()) connections_.push_back(std::move(connection));
  bury();
  if (closed() == mourned_) return;
  for (; mourned_ < closed(); ++mourned_) accounts_.push_back(signal_failure(0));
  lose(grace_after_silence_s);
}

// Removes the connections of ranks that were to fail. The dead processes must not come back.
void Worker::bury() {
  if (state_ != State::running && state_ != State::ready) return;
  std::erase_if(connections_, [this](const Connection& connection) {
    if (connection.open() || buried_ == allowed_) return false;
    ++buried_;
    connection.kill_peer();
    return true;
  });
}

void Worker::read_connections() {
  for (Connection& connection : connections_) {
    try {
      connection.receive();
      while (const auto line = connection.take_line()) handle(*line);
    } catch (const Error& error) {
      broke({FailureReason::exception, fmt::format("worker protocol: {}", error.what()), 0});
    }
  }
}

void Worker::handle(const std::string& line) {
  const record::WorkerMessage message = record::worker_message_from_line(line);
  if (const auto* hello = std::get_if<record::Hello>(&message)) {
    // A process that joins later was started by the ranks, and knows other numbers.
    if (state_ == State::starting && hello->ranks != ranks_) {
      fail(ErrorCode::bad_file, "a rank says that it is one of {}, expected {}", hello->ranks, ranks_);
    }
    ++greeted_;
  } else if (const auto* ready = std::get_if<record::Ready>(&message)) {
    ready_ = *ready;
  } else if (const auto* finished = std::get_if<record::Finished>(&message)) {
    answered(finished->result);
  } else if (const auto* broken = std::get_if<record::Broken>(&message)) {
    broke(broken->failure);
  }
  if (state_ == State::starting && ready_ && greeted_ == ranks_) {
    state_ = State::ready;
    events_.emplace_back(WorkerReady{*ready_});
  }
}

void Worker::answered(const record::RunResult& result) {
  const bool last = result.lost_ranks();
  // If nobody continues a run, its ranks end in any order, some before one has answered.
  const auto silent = [](const auto& account) { return account == signal_failure(0); };
  const bool late = last && state_ == State::ending && allowed_ > known_ &&
                    std::all_of(accounts_.begin(), accounts_.end(), silent);
  if (state_ != State::running && !late) return;  // the deadline came first, or a peer broke in the meantime
  std::size_t failed = 0;
  for (const record::Recovery& recovery : result.recoveries) failed += recovery.failed.size();
  known_ = std::max(buried_, std::min(allowed_, known_ + failed));
  allowed_ = known_;
  state_ = last ? State::quitting : State::ready;
  if (last) deadline_ = in(quit_grace_s);
  events_.emplace_back(WorkerFinished{result});
}

void Worker::broke(const record::Failure& failure) {
  accounts_.push_back(failure);
  lose(grace_after_report_s);
}

void Worker::lose(double grace_s) {
  if (state_ == State::quitting || state_ == State::ended) return;
  const auto limit = in(grace_s);
  deadline_ = state_ == State::ending ? std::min(deadline_, limit) : limit;
  state_ = State::ending;
}

void Worker::check_process() {
  const auto status = process_.poll();
  if (status && state_ != State::ending && state_ != State::quitting) lose(grace_after_report_s);
  const bool over = status && closed() == connections_.size();
  if (state_ == State::ending && (over || Clock::now() >= deadline_)) finish_ending();
  if (state_ == State::quitting && (over || Clock::now() >= deadline_)) kill();
}

void Worker::check_deadline() {
  if (state_ != State::starting && state_ != State::running) return;
  if (Clock::now() < deadline_) return;
  end_with({FailureReason::hang, "", 0});
}

void Worker::finish_ending() {
  const auto status = process_.poll();
  kill();
  events_.emplace_back(WorkerLost{best_account(accounts_, status), status});
}

std::size_t Worker::closed() const {
  return static_cast<std::size_t>(
      std::count_if(connections_.begin(), connections_.end(),
                    [](const Connection& connection) { return !connection.open(); }));
}

}  // namespace bitrift::campaign
