// A worker of a pool and its current run. Inside the pool only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "campaign/worker/job.h"
#include "campaign/worker/pool_options.h"
#include "campaign/worker/private_copy.h"
#include "campaign/worker/scratch.h"
#include "campaign/worker/worker.h"

namespace bitrift::campaign {

struct Crew {
  Clock::time_point begun = Clock::now();  // when the start of its worker began
  Clock::time_point noted = begun;         // when the owner of the campaign last heard that it still starts
  std::size_t arm = 0;
  int slot = 0;
  std::filesystem::path log;
  std::unique_ptr<Scratch> scratch;
  std::unique_ptr<PrivateCopy> copy;
  std::unique_ptr<Worker> worker;
  bool checked = false;           // its no-flip run equals the golden run
  std::set<int> orders;           // data orders in which it equals the golden run; a trial may end early
                                  // against that run
  bool checking = false;          // that run is in progress
  bool on_its_way = false;        // a request was sent and not answered yet
  std::vector<RunKey> unchecked;  // trials and jitter runs since the last successful check in their order
  std::size_t trials = 0;
  std::optional<Job> job;
  Ran current;
  Clock::time_point sent;

  [[nodiscard]] bool idle() const { return !job && !checking && worker->state() == Worker::State::ready; }
  /// How many of `unchecked` ran in this data order.
  [[nodiscard]] std::ptrdiff_t unchecked_in(int order, int of) const {
    return std::count_if(unchecked.begin(), unchecked.end(),
                         [&](const RunKey& key) { return order_of(key, of) == order; });
  }
  [[nodiscard]] bool active() const { return job.has_value() || checking; }
};

/// Starts a worker of this arm. slot: not used by another crew.
[[nodiscard]] std::unique_ptr<Crew> start_crew(const PoolOptions& options, const Bases& bases,
                                               std::size_t arm, int slot);
/// Called after too many failed starts in a row. Throws Error(bad_input | internal) with what is known about
/// the last one.
[[noreturn]] void could_not_start(const Crew& crew, const WorkerLost& loss, const PoolOptions& options);

/// A sentence that says what a slow worker is still waiting for.
[[nodiscard]] std::string slow_start_text(const Crew& crew, const PoolOptions& options);

/// Keeps the result of crew.current, without the place of its copy, and with the names of tensors that count.
void take_result(Crew& crew, const record::RunResult& result);

/// The request to the worker; crew.current says for which run, and its tensors are altered.
[[nodiscard]] record::RunRequest run_request(Crew& crew, const PoolOptions& options);

}  // namespace bitrift::campaign
