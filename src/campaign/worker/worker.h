// One worker: a process group whose ranks run the requests that they get (docs/campaign.md, "Worker
// protocol").
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <poll.h>

#include "core/process/subprocess.h"
#include "record/run.h"
#include "record/trial.h"
#include "record/worker_message.h"
#include "wire/listener.h"

namespace bitrift::campaign {

using Clock = std::chrono::steady_clock;

/// An event of a worker that the driver has to know, in the order of occurrence.
struct WorkerReady {
  record::Ready ready;
};
struct WorkerFinished {
  record::RunResult result;
};
/// The worker has ended: it and all its ranks are killed and reaped. `status` is its own status if it ended
/// unasked.
struct WorkerLost {
  record::Failure failure;
  std::optional<ExitStatus> status;
};
using WorkerEvent = std::variant<WorkerReady, WorkerFinished, WorkerLost>;

/// A worker runs one request at a time. It never blocks its caller for longer than it takes to kill a process
/// group.
///
/// Where ranks are to fail (RunRequest::process_faults), so many connections may close, before the answer or
/// after it, and processes that replace the dead ones may connect at any time. An answer of a run that
/// lost ranks for good is the worker's last.
class Worker {
 public:
  enum class State {
    starting,  ///< ranks have not all said Hello, or rank 0 has not said Ready
    ready,     ///< waits for a request
    running,   ///< has one
    ending,    ///< something broke; waits briefly for a better account of it
    quitting,  ///< was asked to finish, or gave the answer after which it ends
    ended,     ///< gone
  };

  /// Starts the command, to which "--connect NAME" is already added by `command_for`. ranks: how many
  /// connections to expect. Throws Error(not_found | io) when it cannot be started.
  Worker(Listener listener, const Command& command, int ranks, double start_deadline_s);
  ~Worker();  ///< kills whatever still runs
  Worker(Worker&&) = delete;
  Worker& operator=(Worker&&) = delete;

  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] pid_t pid() const noexcept { return process_.pid(); }
  /// What a starting worker is still waiting for, as text.
  [[nodiscard]] std::string waits_for() const;
  /// Processes that can take part in the next run.
  [[nodiscard]] int strength() const;
  /// Sends a request to every rank; state must be ready. survives: the other ranks survive one that fails on
  /// purpose.
  void run(const record::RunRequest& request, double deadline_s, bool survives = true);
  /// Asks every rank to finish; ranks that have not after five seconds are killed.
  void quit();
  /// SIGKILL to the group and to every rank (a launcher may have put ranks into groups of their own), then
  /// waits until they have ended, at most two seconds.
  void kill();

  /// The first half of kill(): the signals, without waiting.
  void strike() noexcept;
  /// kill(), and the event that next_event() returns for it.
  void end_with(const record::Failure& failure);
  /// SIGKILL to the ranks on this machine that a signal has stopped, now and when this was last called: a
  /// stopped rank hangs, and a dead one is noticed.
  void end_stopped();
  /// The memory of the process that was started and of every rank on this machine.
  [[nodiscard]] std::vector<pid_t> pids() const;

  /// Descriptors to wait on.
  void add_to(std::vector<pollfd>& waiting) const;
  /// Receives what has arrived and checks the deadline.
  void step();
  /// The next event, if any.
  [[nodiscard]] std::optional<WorkerEvent> next_event();

 private:
  void receive();
  void read_connections();
  void handle(const std::string& line);
  void answered(const record::RunResult& result);
  void bury();
  void lose(double grace_s);
  void broke(const record::Failure& failure);
  void check_process();
  void check_deadline();
  void finish_ending();
  [[nodiscard]] std::size_t closed() const;

  Listener listener_;
  std::vector<Connection> connections_;
  std::set<pid_t> stopped_;  // ranks that were, when end_stopped() last looked
  Subprocess process_;
  int ranks_;
  State state_ = State::starting;
  int greeted_ = 0;
  std::size_t mourned_ = 0;  // ended connections that accounts_ holds
  // Ranks that failed on purpose since the start: how many may have, how many the answers report, and how
  // many connections have ended.
  std::size_t allowed_ = 0, known_ = 0, buried_ = 0;
  std::optional<record::Ready> ready_;
  Clock::time_point deadline_;
  std::vector<record::Failure> accounts_;  // reports of ranks before they ended, in order
  std::deque<WorkerEvent> events_;
};

/// The best account of a loss. `accounts` in order: the reports of ranks; the end of a connection is {signal,
/// "", 0}. A signal that a rank reported comes first (except SIGTERM: launchers send it to the remaining
/// ranks); then an exception, unless a connection ended silently before it; then the way in which the process
/// ended, where 128 + n means signal n; last, signal 0 (unknown).
[[nodiscard]] record::Failure best_account(const std::vector<record::Failure>& accounts,
                                           const std::optional<ExitStatus>& status);

}  // namespace bitrift::campaign
