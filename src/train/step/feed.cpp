#include "train/step/feed.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace bitrift::train {
namespace {

// A step that is being or has been prepared. `rows` owns the memory that step.batch points to.
struct Job {
  explicit Job(const StepInput& wanted) : rows(wanted.batch.begin(), wanted.batch.end()), step(wanted) {
    step.batch = rows;
  }
  Job(Job&&) = delete;
  Job& operator=(Job&&) = delete;
  [[nodiscard]] bool is(const StepInput& other) const {
    return step.seed == other.seed && step.epoch == other.epoch &&
           std::equal(rows.begin(), rows.end(), other.batch.begin(), other.batch.end());
  }

  std::vector<std::int64_t> rows;
  StepInput step;
  std::vector<MicroBatch> result = {};
  std::exception_ptr error = {};
  bool done = false;
};

}  // namespace

std::span<const std::int64_t> part(std::span<const std::int64_t> rows, int index, int count) {
  const std::size_t size = rows.size() / static_cast<std::size_t>(count);
  return rows.subspan(size * static_cast<std::size_t>(index), size);
}

struct Feed::Thread {
  explicit Thread(const Feed& feed) : worker([this, &feed] { run(feed); }) {}
  ~Thread() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    worker.join();
  }
  Thread(Thread&&) = delete;
  Thread& operator=(Thread&&) = delete;

  void run(const Feed& feed) {
    torch::set_num_threads(1);  // counts for this thread only
    std::unique_lock lock(mutex);
    while (true) {
      const auto next = [&] {
        return std::find_if(jobs.begin(), jobs.end(), [](const auto& job) { return !job->done; });
      };
      changed.wait(lock, [&] { return stop || next() != jobs.end(); });
      if (stop) return;
      const std::shared_ptr<Job> job = *next();
      lock.unlock();
      try {
        job->result = feed.prepare(job->step);
      } catch (...) {
        job->error = std::current_exception();
      }
      lock.lock();
      job->done = true;
      changed.notify_all();
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> jobs;
  bool stop = false;
  std::thread worker;  // the last member, because it uses all others
};

Feed::Feed(const nn::Dataset& data, int replica, int replicas, int micro_batches, bool with_batches,
           int ahead)
    : data_(data),
      replica_(replica),
      replicas_(replicas),
      micro_batches_(micro_batches),
      ahead_(with_batches ? ahead : 0),
      with_batches_(with_batches) {
  if (ahead_ > 0) thread_ = std::make_unique<Thread>(*this);
}

Feed::~Feed() = default;

std::vector<MicroBatch> Feed::prepare(const StepInput& step) const {
  const auto mine = part(step.batch, replica_, replicas_);
  std::vector<MicroBatch> result;
  result.reserve(static_cast<std::size_t>(micro_batches_));
  for (int m = 0; m < micro_batches_; ++m) {
    const auto rows = part(mine, m, micro_batches_);
    result.push_back({{rows.begin(), rows.end()}, {}});
    if (with_batches_) result.back().batch = data_.train_batch(rows, step.seed, step.epoch);
  }
  return result;
}

std::vector<MicroBatch> Feed::take(const StepInput& step) {
  if (!thread_) return prepare(step);
  std::unique_lock lock(thread_->mutex);
  if (thread_->jobs.empty() || !thread_->jobs.front()->is(step)) {
    thread_->jobs.clear();
    lock.unlock();
    return prepare(step);
  }
  const std::shared_ptr<Job> job = thread_->jobs.front();
  thread_->changed.wait(lock, [&] { return job->done; });
  thread_->jobs.pop_front();
  if (job->error) std::rethrow_exception(job->error);
  return std::move(job->result);
}

std::size_t Feed::waiting() const {
  if (!thread_) return 0;
  const std::lock_guard lock(thread_->mutex);
  return thread_->jobs.size();
}

bool Feed::wants_more() const { return thread_ && waiting() <= static_cast<std::size_t>(ahead_); }

void Feed::expect(const StepInput& step) {
  if (!wants_more()) return;
  {
    const std::lock_guard lock(thread_->mutex);
    thread_->jobs.push_back(std::make_shared<Job>(step));
  }
  thread_->changed.notify_all();
}

}  // namespace bitrift::train
