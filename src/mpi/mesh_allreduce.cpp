#include "mpi/mesh_allreduce.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <deque>
#include <optional>
#include <thread>
#include <type_traits>
#include <vector>

#include "mpi/checked.h"
#include "mpi/handles.h"
#include "mpi/left_over.h"
#include "mpi/pulse.h"

namespace bitrift::mpi {
namespace {

/// Receives from one neighbour that are posted before their data can be written: one more than is written at
/// a time, so that the next data have a place. 1, 4 and 8 were as fast (bench/mesh.py).
constexpr std::size_t most_posted = 2;

template <typename T>
MPI_Datatype type_of() {
  if constexpr (std::is_same_v<T, float>) return MPI_FLOAT;
  if constexpr (std::is_same_v<T, double>) return MPI_DOUBLE;
  if constexpr (std::is_same_v<T, std::int32_t>) return MPI_INT32_T;
  if constexpr (std::is_same_v<T, std::int64_t>) return MPI_INT64_T;
}

template <typename T>
void add_to(T* __restrict sum, const T* __restrict next, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      sum[i] = static_cast<T>(static_cast<Unsigned>(sum[i]) + static_cast<Unsigned>(next[i]));
    } else {
      sum[i] += next[i];
    }
  }
}

}  // namespace

template <typename T>
struct MeshAllreduce<T>::State : LeftOver {
  using Clock = std::chrono::steady_clock;
  enum class Progress : std::uint8_t { waits, held, begun, ended };
  struct Incoming {
    std::size_t posted = 0, written = 0;
    std::vector<T> room = {};   // for most_posted chunks
    std::vector<T*> into = {};  // the target of the receive in each of these places
  };

  // Messages to one neighbour.
  struct Outgoing {
    std::size_t sent = 0;
    std::deque<Clock::time_point> held = {};  // when those after them may be sent
  };

  Communicator communicator;
  std::shared_ptr<const LocalSchedule> schedule;
  T* data;
  std::size_t count;
  int tag;
  std::shared_ptr<const void> owner;
  std::function<void(const Arrival&)> look;
  std::function<double(int)> hold;
  std::vector<MPI_Request> requests;  // of each step
  std::vector<Progress> progress;
  std::vector<Incoming> incoming;
  std::vector<Outgoing> outgoing;
  std::size_t first_open = 0;  // steps before this one have ended

  State(Communicator ranks, std::shared_ptr<const LocalSchedule> plan, T* array, std::size_t elements,
        int its_tag, std::shared_ptr<const void> its_owner)
      : communicator(std::move(ranks)),
        schedule(std::move(plan)),
        data(array),
        count(elements),
        tag(its_tag),
        owner(std::move(its_owner)),
        requests(schedule->size(), MPI_REQUEST_NULL),
        progress(schedule->size(), Progress::ended),
        incoming(schedule->incoming().size()),
        outgoing(schedule->outgoing().size()),
        first_open(schedule->size()) {
    check();
    for (Incoming& from : incoming) {
      from.room.resize(most_posted * size(0));
      from.into.resize(most_posted);
    }
  }

  // If the division leaves a remainder, the first chunks have one element more.
  [[nodiscard]] std::size_t size(std::size_t chunk) const {
    return count / schedule->chunks() + (chunk < count % schedule->chunks() ? 1 : 0);
  }
  [[nodiscard]] T* chunk_at(std::size_t chunk) const {
    return data + chunk * (count / schedule->chunks()) + std::min(chunk, count % schedule->chunks());
  }

  void check() const {
    if (communicator.size() != schedule->ranks() || communicator.rank() != schedule->rank()) {
      fail(ErrorCode::bad_input,
           "rank {} of {} cannot run what was made for rank {} of {}: each live chip needs one rank",
           communicator.rank(), communicator.size(), schedule->rank(), schedule->ranks());
    }
    if (size(0) > static_cast<std::size_t>(INT_MAX)) {
      fail(ErrorCode::unsupported, "a chunk of {} elements is beyond what one MPI call carries ({})", size(0),
           INT_MAX);
    }
    if (tag < 0 || tag >= sum_tags) fail(ErrorCode::internal, "a sum with tag {}", tag);
    if (count > 0 && data == nullptr) fail(ErrorCode::internal, "a sum without an array");
  }

  void start() {
    if (first_open < schedule->size()) fail(ErrorCode::internal, "a sum that is under way was started");
    if (count == 0) return;
    first_open = 0;
    std::ranges::fill(progress, Progress::waits);
    for (Outgoing& to : outgoing) to = {};
    for (std::size_t q = 0; q < incoming.size(); ++q) {
      incoming[q].posted = incoming[q].written = 0;
      post_receives(q);
    }
    send_ready();
  }

  // Whether the message of a step that has begun is complete.
  bool arrived(std::uint32_t step) {
    if (requests[step] == MPI_REQUEST_NULL) return true;
    int done = 0;
    MPI_Status status{};
    check_code(MPI_Test(&requests[step], &done, &status), "MPI_Test");
    if (done == 0) return false;
    const LocalSchedule::Step& one = schedule->step(step);
    if (one.part == comm::Part::read) return true;
    int received = 0;
    check_code(MPI_Get_count(&status, type_of<T>(), &received), "MPI_Get_count");
    if (received == MPI_UNDEFINED || static_cast<std::size_t>(received) != size(one.chunk)) {
      fail(ErrorCode::internal, "rank {} expected {} elements of chunk {} from rank {} and received {}",
           communicator.rank(), size(one.chunk), one.chunk, status.MPI_SOURCE, received);
    }
    return true;
  }

  // A send is tested only when something waits for it: each test of an idle request gives the core away.
  bool has_ended(std::uint32_t step) {
    if (progress[step] == Progress::begun && schedule->step(step).part == comm::Part::read && arrived(step))
      progress[step] = Progress::ended;
    return progress[step] == Progress::ended;
  }
  bool may_begin(std::uint32_t step) {
    return std::ranges::all_of(schedule->waits(step), [this](std::uint32_t one) { return has_ended(one); });
  }

  // A copy whose place is free already is received there.
  void post_receives(std::size_t q) {
    const LocalSchedule::Queue& queue = schedule->incoming()[q];
    Incoming& from = incoming[q];
    for (; from.posted < queue.steps.size() && from.posted < from.written + most_posted; ++from.posted) {
      const std::uint32_t step = queue.steps[from.posted];
      const LocalSchedule::Step& one = schedule->step(step);
      const std::size_t place = from.posted % most_posted;
      const bool direct = one.kind == comm::SendKind::copy && may_begin(step);
      from.into[place] = direct ? chunk_at(one.chunk) : from.room.data() + place * size(0);
      progress[step] = Progress::begun;
      check_code(MPI_Irecv(from.into[place], static_cast<int>(size(one.chunk)), type_of<T>(), queue.rank,
                           first_sum_tag + tag, communicator.state().handle, &requests[step]),
                 "MPI_Irecv");
    }
  }

  void send(int rank, std::uint32_t step) {
    const std::size_t chunk = schedule->step(step).chunk;
    progress[step] = Progress::begun;
    check_code(MPI_Isend(chunk_at(chunk), static_cast<int>(size(chunk)), type_of<T>(), rank,
                         first_sum_tag + tag, communicator.state().handle, &requests[step]),
               "MPI_Isend");
  }

  void send_ready() {
    for (std::size_t q = 0; q < outgoing.size(); ++q) {
      const LocalSchedule::Queue& queue = schedule->outgoing()[q];
      Outgoing& to = outgoing[q];
      if (hold) hold_ready(queue, to);
      const auto now = to.held.empty() ? Clock::time_point() : Clock::now();
      for (; to.sent < queue.steps.size(); ++to.sent) {
        if (hold) {
          if (to.held.empty() || to.held.front() > now) break;
          to.held.pop_front();
        } else if (!may_begin(queue.steps[to.sent])) {
          break;
        }
        send(queue.rank, queue.steps[to.sent]);
      }
    }
  }

  // A held message is read when it is released, so nothing may overwrite its chunk before that: has_ended()
  // is false.
  void hold_ready(const LocalSchedule::Queue& queue, Outgoing& to) {
    for (std::size_t next = to.sent + to.held.size(); next < queue.steps.size(); ++next) {
      if (!may_begin(queue.steps[next])) return;
      progress[queue.steps[next]] = Progress::held;
      const std::chrono::duration<double> seconds(hold(queue.rank));
      const auto due = Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds);
      to.held.push_back(to.held.empty() ? due : std::max(due, to.held.back()));
    }
  }

  [[nodiscard]] bool holds() const {
    return std::ranges::any_of(outgoing, [](const Outgoing& to) { return !to.held.empty(); });
  }

  // Writes the data that have come from one neighbour; returns whether there were any.
  bool take(std::size_t q) {
    const LocalSchedule::Queue& queue = schedule->incoming()[q];
    Incoming& from = incoming[q];
    bool any = false;
    while (from.written < queue.steps.size()) {
      const std::uint32_t step = queue.steps[from.written];
      if (!arrived(step) || !may_begin(step)) break;
      const LocalSchedule::Step& one = schedule->step(step);
      T* brought = from.into[from.written % most_posted];
      T* chunk = chunk_at(one.chunk);
      if (look) look({one, queue.rank, brought, size(one.chunk)});
      if (one.kind == comm::SendKind::add) {
        add_to(chunk, brought, size(one.chunk));
      } else if (brought != chunk) {
        std::copy_n(brought, size(one.chunk), chunk);
      }
      progress[step] = Progress::ended;
      ++from.written;
      any = true;
      send_ready();
      post_receives(q);
    }
    return any;
  }

  [[nodiscard]] bool all_begun() const {
    for (std::size_t q = 0; q < outgoing.size(); ++q) {
      if (outgoing[q].sent < schedule->outgoing()[q].steps.size()) return false;
    }
    for (std::size_t q = 0; q < incoming.size(); ++q) {
      if (incoming[q].written < schedule->incoming()[q].steps.size()) return false;
    }
    return true;
  }

  bool advance(bool block) {
    if (first_open == schedule->size()) return true;
    std::optional<Waiting> others;
    if (block) others.emplace();
    do {
      bool any = false;
      for (std::size_t q = 0; q < incoming.size(); ++q) any = take(q) || any;
      // A send for which others wait may have ended.
      if (!any) send_ready();
      if (!any && !block) break;
      // Nothing else may give the core away while a message is held.
      if (!any && hold && holds()) std::this_thread::yield();
    } while (!all_begun());
    if (!all_begun()) return false;
    do {
      while (first_open < schedule->size() && has_ended(static_cast<std::uint32_t>(first_open))) ++first_open;
    } while (block && first_open < schedule->size());
    return first_open == schedule->size();
  }

  bool in_use() noexcept override { return any_under_way(requests); }
};

template <typename T>
void MeshAllreduce<T>::Release::operator()(State* state) const noexcept {
  give_up(state);
}

template <typename T>
MeshAllreduce<T>::MeshAllreduce(Communicator communicator, std::shared_ptr<const LocalSchedule> schedule,
                                T* data, std::size_t count, int tag, std::shared_ptr<const void> owner)
    : state_(new State(std::move(communicator), std::move(schedule), data, count, tag, std::move(owner))) {}

template <typename T>
MeshAllreduce<T>::MeshAllreduce(MeshAllreduce&&) noexcept = default;
template <typename T>
MeshAllreduce<T>& MeshAllreduce<T>::operator=(MeshAllreduce&&) noexcept = default;
template <typename T>
MeshAllreduce<T>::~MeshAllreduce() = default;

template <typename T>
void MeshAllreduce<T>::on_arrival(std::function<void(const Arrival&)> look) {
  state_->look = std::move(look);
}

template <typename T>
void MeshAllreduce<T>::on_send(std::function<double(int)> hold) {
  state_->hold.swap(hold);
}

template <typename T>
void MeshAllreduce<T>::start() {
  state_->start();
}

template <typename T>
bool MeshAllreduce<T>::advance() {
  return state_->advance(false);
}

template <typename T>
void MeshAllreduce<T>::wait() {
  state_->advance(true);
}

template class MeshAllreduce<float>;
template class MeshAllreduce<double>;
template class MeshAllreduce<std::int32_t>;
template class MeshAllreduce<std::int64_t>;

}  // namespace bitrift::mpi
