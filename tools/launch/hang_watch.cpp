#include "launch/hang_watch.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/error.h"
#include "core/log.h"
#include "core/process/subprocess.h"
#include "launch/local_ranks.h"
#include "launch/own_memory.h"

namespace bitrift::cli {
namespace {

constexpr const char* file_name = "bitrift-pulses";
constexpr std::size_t places = 4096;  // more than ranks of one machine, and those that replace them
constexpr std::size_t board_size = places * sizeof(mpi::Pulse);

mpi::Pulse* mapped(int file) {
  void* memory = ::mmap(nullptr, board_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<mpi::Pulse*>(memory);
}

constexpr char stopped_by_signal = 'T';
constexpr char stopped_by_debugger = 't';

}  // namespace

HangWatch::HangWatch(const HangLimit& limit, int ranks, bool tells_steps)
    : limit_(limit), job_ranks_(static_cast<std::size_t>(ranks)) {
  if (!limit.watches && !tells_steps) return;
  file_ = FileDescriptor(::memfd_create(file_name, MFD_CLOEXEC));
  if (!file_ || ::ftruncate(file_.get(), board_size) != 0)
    fail(ErrorCode::io, "cannot make a file in memory: {}", errno_text(errno));
  board_ = mapped(file_.get());
  if (board_ == nullptr) fail(ErrorCode::io, "cannot map a file in memory: {}", errno_text(errno));
}

HangWatch::~HangWatch() {
  if (board_ != nullptr) ::munmap(board_, board_size);
}

std::string HangWatch::place() const { return board_ == nullptr ? "" : own_memory(file_.get()); }

double HangWatch::limit(const mpi::Pulse* pulse) const {
  constexpr double shortest = 60, usual = 600;
  constexpr std::int64_t enough_spans = 100, times_the_longest = 30;
  if (limit_.seconds) return *limit_.seconds;
  const bool in_step = pulse != nullptr && pulse->place.load(std::memory_order_relaxed) == mpi::Place::step;
  if (!in_step || spans_ < enough_spans) return usual;
  return std::max(shortest, 1e-9 * static_cast<double>(times_the_longest * longest_));
}

void HangWatch::end(pid_t process, const char* why, double limit) {
  spdlog::warn("a rank (process {}) {} for more than {:g} s; ending it (--detect-hang{})", process, why,
               limit, limit_.seconds ? "" : " auto");
  ::kill(process, SIGKILL);
  over_.insert(process);
  last_end_ = watched_;
}

void HangWatch::look_at(pid_t process, const mpi::Pulse* pulse) {
  Rank& rank = ranks_.try_emplace(process, Rank{.since = watched_}).first->second;
  const char state = process_state(process);
  if (state == stopped_by_signal) {
    rank.stopped_since = rank.stopped_since.value_or(watched_);
    const double most = limit(pulse);
    if (watched_ - *rank.stopped_since > most) end(process, "has been stopped", most);
    return;
  }
  rank.stopped_since.reset();
  if (pulse == nullptr) return;
  // In this order: a rank beats before its wait ends.
  const bool waits = pulse->waits.load(std::memory_order_acquire) > 0;
  const std::int64_t beat = pulse->beat.load(std::memory_order_relaxed);
  if (beat == 0 || beat != rank.beat || state == stopped_by_debugger) {
    rank.beat = beat;
    rank.since = watched_;
    return;
  }
  const double most = limit(pulse);
  if (!waits && watched_ - rank.since > most) end(process, "has made no progress", most);
}

// A rank that hangs in MPI looks like one that waits. If it is not the one that is ended first, it will be
// the next: the others make progress in their recovery.
void HangWatch::look_at_all(const std::map<pid_t, const mpi::Pulse*>& living) {
  if (ranks_.size() < job_ranks_) return;
  const double most = limit(nullptr);
  pid_t oldest = 0;
  for (const auto& [process, pulse] : living) {
    if (pulse != nullptr && pulse->place.load(std::memory_order_relaxed) == mpi::Place::idle) continue;
    if (pulse == nullptr || pulse->waits.load(std::memory_order_acquire) == 0) return;
    const Rank& rank = ranks_.at(process);
    if (watched_ - std::max(rank.since, last_end_) <= most) return;
    if (oldest == 0 || rank.beat < ranks_.at(oldest).beat) oldest = process;
  }
  if (oldest != 0) end(oldest, "has waited for others, as all have,", most);
}

void HangWatch::look(const std::set<pid_t>& ranks) {
  if (!limit_.watches) return;
  // A longer break between two looks: the machine slept, or this process did.
  constexpr double longest_break = 1;
  const auto now = Clock::now();
  watched_ +=
      std::min(longest_break, std::chrono::duration<double>(now - std::exchange(looked_, now)).count());
  std::map<pid_t, const mpi::Pulse*> watched;
  for (const pid_t process : ranks) watched.emplace(process, nullptr);
  spans_ = 0;
  for (std::size_t i = 0; i < places && board_[i].process != 0; ++i) {
    watched[board_[i].process] = &board_[i];
    longest_ = std::max(longest_, board_[i].longest.load(std::memory_order_relaxed));
    spans_ += board_[i].spans.load(std::memory_order_relaxed);
  }
  for (const auto& [process, pulse] : watched) {
    if (over_.contains(process)) continue;
    if (runs_this_program(process)) {
      look_at(process, pulse);
    } else {
      over_.insert(process);  // its number may be another program's later
      last_end_ = watched_;
    }
  }
  std::erase_if(watched, [&](const auto& one) { return over_.contains(one.first); });
  look_at_all(watched);
}

std::optional<mpi::Steps> HangWatch::furthest() const {
  std::optional<mpi::Steps> furthest;
  for (std::size_t i = 0; board_ != nullptr && i < places && board_[i].process != 0; ++i) {
    if (board_[i].beat != 0) furthest = std::max(furthest, std::optional(mpi::shown_steps(board_[i])));
  }
  return furthest;
}

void show_pulse_at(const char* place) noexcept {
  if (place == nullptr || !is_own_memory(place, file_name)) return;
  const FileDescriptor file(::open(place, O_RDWR | O_CLOEXEC));
  mpi::Pulse* board = file ? mapped(file.get()) : nullptr;
  for (std::size_t i = 0; board != nullptr && i < places; ++i) {
    std::int32_t nobody = 0;
    if (!board[i].process.compare_exchange_strong(nobody, ::getpid())) continue;
    mpi::show_pulse(board[i]);
    return;
  }
}

}  // namespace bitrift::cli
