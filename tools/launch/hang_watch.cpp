#include "launch/hang_watch.h"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <fstream>
#include <string_view>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/error.h"
#include "core/log.h"
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

// Whether a signal or a debugger has stopped the process, by the letter after its name in proc(5), stat.
bool is_stopped(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const std::size_t at = text.rfind(')');
  return at != std::string::npos && at + 2 < text.size() && (text[at + 2] == 'T' || text[at + 2] == 't');
}

}  // namespace

HangWatch::HangWatch(double seconds) : limit_(seconds) {
  if (seconds <= 0) return;
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

bool HangWatch::stopped_for_long(pid_t process) {
  if (!is_stopped(process)) {
    stopped_.erase(process);
    return false;
  }
  const auto now = Clock::now();
  return now - stopped_.try_emplace(process, now).first->second > limit_;
}

bool HangWatch::silent_for_long(const mpi::Pulse& pulse) const {
  // In this order: a rank beats before its wait ends.
  if (pulse.waits.load(std::memory_order_acquire) > 0) return false;
  const std::chrono::nanoseconds beat(pulse.beat.load(std::memory_order_relaxed));
  return beat.count() > 0 && Clock::now().time_since_epoch() - beat > limit_;
}

void HangWatch::end(pid_t process, const char* why) {
  spdlog::warn("a rank (process {}) {} for more than {:g} s; ending it", process, why, limit_.count());
  ::kill(process, SIGKILL);
  over_.insert(process);
}

void HangWatch::look(const std::set<pid_t>& ranks) {
  if (board_ == nullptr) return;
  std::map<pid_t, const mpi::Pulse*> watched;
  for (const pid_t process : ranks) watched.emplace(process, nullptr);
  for (std::size_t i = 0; i < places && board_[i].process != 0; ++i) watched[board_[i].process] = &board_[i];
  for (const auto& [process, pulse] : watched) {
    if (over_.contains(process)) continue;
    if (!runs_this_program(process)) {
      over_.insert(process);  // its number may be another program's later
    } else if (stopped_for_long(process)) {
      end(process, "has been stopped");
    } else if (pulse != nullptr && silent_for_long(*pulse)) {
      end(process, "has not got on");
    }
  }
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
