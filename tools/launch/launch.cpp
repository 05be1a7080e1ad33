#include "launch/launch.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <sys/mman.h>
#include <sysexits.h>
#include <unistd.h>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/process/subprocess.h"
#include "core/process/wheel_places.h"
#include "launch/local_ranks.h"
#include "launch/own_memory.h"
#include "launch/preemption.h"
#include "mpi/environment.h"

namespace bitrift::cli {
namespace {

constexpr const char* exit_code_variable = "BITRIFT_EXIT_CODE_FILE";
constexpr const char* exit_code_file = "bitrift-exit-code";
constexpr const char* pulse_variable = "BITRIFT_PULSE_FILE";
constexpr const char* segment_notes = "segments";  // in the folder of a job
constexpr int killed_by_signal = 128;              // plus the signal: the exit code of mpirun

std::atomic<int> interrupted_by = 0;  // the signal
std::atomic<int> preempted_by = 0;    // SIGTERM or SIGUSR1
bool ranks_are_asked = false;         // to leave, and those of later starts are, too
static_assert(std::atomic<int>::is_always_lock_free);

void notice_signals(const Job& job) {
  const auto interrupt = [](int which) { interrupted_by = which; };
  const auto preempt = [](int which) { preempted_by = which; };
  handle_unless_ignored(SIGINT, interrupt);
  handle_unless_ignored(SIGHUP, interrupt);
  if (job.may_leave) handle_unless_ignored(SIGUSR1, preempt);
  handle_unless_ignored(SIGTERM, job.may_leave ? static_cast<void (*)(int)>(preempt) : interrupt);
}

JobEnd interrupted_end(int signal, bool began) {
  if (signal == SIGUSR1) {
    spdlog::error("ended by SIGUSR1 before there was anything to save; start it again");
    return {EX_TEMPFAIL, false, began};
  }
  const char* const name = signal == SIGINT ? "SIGINT" : signal == SIGTERM ? "SIGTERM" : "SIGHUP";
  spdlog::error("ended by {} before the run was over", name);
  return {128 + signal, false, began};
}

// SIGKILL and SIGTERM come from outside a rank: from a person, a scheduler, or the kernel when memory is
// short. Without a signal, MPI itself has ended the job, for example because a machine is gone. Any other
// signal is that of a crash.
int code_of_loss(const ExitStatus& mpirun) {
  // A SIGTERM to all processes of a job ends the ranks, too, before they can save.
  if (preempted_by == SIGTERM) return killed_by_signal + SIGTERM;
  const bool crashed = mpirun.code > killed_by_signal && mpirun.code != killed_by_signal + SIGKILL &&
                       mpirun.code != killed_by_signal + SIGTERM;
  return crashed ? 3 : 1;
}

std::string mpirun_program() {
  const char* named = std::getenv("BITRIFT_MPIRUN");
  if (named != nullptr && *named != '\0') return named;
  const auto wheel = wheel_places();
  return wheel ? (wheel->bin / "mpiexec").string() : BITRIFT_MPIEXEC;
}

Command mpirun_command(const Job& job, bool exit_codes_are_mine) {
  Command command;
  command.arguments = {mpirun_program()};
  command.arguments.insert(command.arguments.end(), job.options.begin(), job.options.end());
  for (std::string& option : mpi::launcher_options(exit_codes_are_mine))
    command.arguments.push_back(std::move(option));
  command.arguments.insert(
      command.arguments.end(),
      {"-n", std::to_string(job.ranks), std::filesystem::read_symlink("/proc/self/exe").string()});
  command.arguments.insert(command.arguments.end(), job.arguments.begin(), job.arguments.end());
  if (::geteuid() == 0 && std::getenv("OMPI_ALLOW_RUN_AS_ROOT") == nullptr) {
    spdlog::info(
        "running as root: setting OMPI_ALLOW_RUN_AS_ROOT and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM for mpirun");
    command.environment["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
    command.environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  }
  // A rank that waits yields its core to any process that has work: on a machine that is also doing something
  // else, busy waiting made a campaign's data-parallel and pipeline trials several times slower; on an idle
  // one it costs nothing measurable.
  if (std::getenv("OMPI_MCA_mpi_yield_when_idle") == nullptr) {
    command.environment["OMPI_MCA_mpi_yield_when_idle"] = "1";
  }
  // Only one-sided transfers go through this module, and we make none; looking for its hardware costs every
  // start a second of waiting (Open MPI 5.0.11: two ranks start and end in 1.23 s with it and in 0.22 s
  // without).
  if (std::getenv("OMPI_MCA_btl") == nullptr) command.environment["OMPI_MCA_btl"] = "^ofi";
  return command;
}

// A cable that is cut closes no connection. So the kernel sends TCP keepalives from mpirun to the daemons on
// other machines, and mpirun ends the job when they go unanswered for 50 s in all. The other kernel answers
// for a daemon that is busy or stopped. The defaults of Open MPI 5.0.11 are 300 s and 9 probes in 180 s.
void notice_lost_machines(Command& command) {
  for (const auto& [name, value] : {std::pair{"PRTE_MCA_oob_tcp_keepalive_time", "30"},  // seconds
                                    {"PRTE_MCA_oob_tcp_keepalive_intvl", "5"},           // seconds
                                    {"PRTE_MCA_oob_tcp_keepalive_probes", "4"}}) {
    if (std::getenv(name) == nullptr) command.environment[name] = value;
  }
}

// Places in the file that ranks leave their words in. A byte that nobody wrote is 0; a file that ends before
// it has no word there.
enum class Word : off_t { begun, leave, given_up, exit_code };

std::optional<char> read_word(int file, Word word) {
  char byte = 0;
  return ::pread(file, &byte, 1, static_cast<off_t>(word)) == 1 ? std::optional(byte) : std::nullopt;
}

void write_word(int file, Word word, char byte) noexcept {
  [[maybe_unused]] const ssize_t written = ::pwrite(file, &byte, 1, static_cast<off_t>(word));
}

// The driver's file, for a rank. Nothing where run_mpirun did not start the job, or did so on another
// machine.
FileDescriptor words(int flags) noexcept {
  const char* name = std::getenv(exit_code_variable);
  if (name == nullptr || !is_own_memory(name, exit_code_file)) return {};
  return FileDescriptor(::open(name, flags | O_CLOEXEC));
}

void leave_word(Word word, char byte) noexcept {
  const FileDescriptor file = words(O_WRONLY);
  if (file) write_word(file.get(), word, byte);
}

}  // namespace

void become_mpirun(const Job& job) {
  Command command = mpirun_command(job, false);
  for (const auto& [name, value] : command.environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> pointers;
  for (std::string& argument : command.arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  fail(ErrorCode::not_found, "cannot start {}: {}; set BITRIFT_MPIRUN to your MPI's mpirun",
       command.arguments[0], errno_text(errno));
}

namespace {

// Waits for mpirun. Nothing if a rank was lost before the training began, and the others would wait for it.
std::optional<ExitStatus> end_of(Subprocess& mpirun, int words, LocalRanks& ranks, HangWatch& hangs,
                                 const Job& job) {
  using clock = std::chrono::steady_clock;
  constexpr auto grace = std::chrono::seconds(1);  // in which a job may still end by itself
  const auto said = [&](Word word) { return read_word(words, word).value_or(0) != 0; };
  // A rank that dies before it was seen is not missed. Other machines' ranks never are.
  constexpr auto arrival = std::chrono::seconds(5);
  const auto began = clock::now();
  std::optional<clock::time_point> lost;
  if (ranks_are_asked) write_word(words, Word::leave, 1);
  while (true) {
    const bool starts = !said(Word::begun);
    const bool arrive =
        ranks.seen().size() < static_cast<std::size_t>(job.ranks) && clock::now() - began < arrival;
    std::optional<ExitStatus> ended = mpirun.wait(!starts ? 0.2 : arrive ? 0.001 : 0.02);
    if (!ended && preempted_by != 0 && !ranks_are_asked) {
      if (starts) interrupted_by = preempted_by.load();
      ranks_are_asked = !starts;
      if (ranks_are_asked) write_word(words, Word::leave, 1);
    }
    if (!ended && interrupted_by != 0) ended = mpirun.terminate(5);
    if (ended) return ended;
    const bool gone = ranks.look();
    hangs.look(ranks.seen());
    if (!starts || !gone || job.options.empty() || read_word(words, Word::exit_code)) continue;
    if (!lost) lost = clock::now();
    if (clock::now() - *lost < grace || said(Word::begun)) continue;
    mpirun.terminate(5);
    return std::nullopt;
  }
}

}  // namespace

JobEnd run_mpirun(const Job& job) {
  Command command = mpirun_command(job, true);
  const FileDescriptor code_file(::memfd_create(exit_code_file, MFD_CLOEXEC));
  if (!code_file) fail(ErrorCode::io, "cannot make a file in memory: {}", errno_text(errno));
  // mpirun names its session folder by its process number and cannot start where a killed one of the same
  // number left its own.
  constexpr const char* name = "bitrift-mpirun";
  remove_abandoned_folders(name, [](const auto& left) { remove_noted_segments(left / segment_notes); });
  const TemporaryFolder session(name);
  command.environment["TMPDIR"] = session.path().string();
  const std::string place = own_memory(code_file.get());
  command.environment[exit_code_variable] = place;
  if (job.hang_limit.watches) notice_lost_machines(command);
  HangWatch hangs(job.hang_limit, job.ranks, job.tells_steps);
  command.environment[pulse_variable] = hangs.place();
  notice_signals(job);
  const bool survives = !job.options.empty();
  std::optional<ExitStatus> ended;
  bool started = false;  // a rank on this machine
  try {
    Subprocess child(command);
    LocalRanks local(child.pid(), fmt::format("{}={}", exit_code_variable, place),
                     session.path() / segment_notes);
    ended = end_of(child, code_file.get(), local, hangs, job);
    started = !local.seen().empty();
    local.clean_up(ended && ended->signal != 0);
  } catch (const Error& error) {
    fail(error.code(), "{}; set BITRIFT_MPIRUN to your MPI's mpirun", error.what());
  }
  const std::optional<char> code = read_word(code_file.get(), Word::exit_code);
  const bool began = read_word(code_file.get(), Word::begun).value_or(0) != 0;
  if (!ended) return {1, true, began};
  const ExitStatus status = *ended;
  if (code == 0 && status.signal != 0) {
    spdlog::warn(
        "mpirun was ended by signal {} when the run was over: its files are complete, but the result may not "
        "have been printed",
        status.signal);
    return {0, false, began, *code};
  }
  // If a job survived a failure, the code that a rank left says how it ended.
  if (code && survives) return {*code, false, began, *code};
  if (!code && interrupted_by != 0) return interrupted_end(interrupted_by, began);
  const bool given_up = read_word(code_file.get(), Word::given_up).value_or(0) != 0;
  if (!code) {
    JobEnd end{given_up ? 1 : code_of_loss(status), true, began, {}, status.signal, hangs.furthest()};
    if (!started && status.signal == 0 && status.code <= killed_by_signal) {
      end.no_start = fmt::format("{} ended with exit code {} before a rank had started on this machine",
                                 mpirun_program(), status.code);
    }
    return end;
  }
  if (*code == 0 && status.code > killed_by_signal) {
    spdlog::warn("a rank was lost after the result was complete, which changes nothing");
    return {0, false, began, *code};
  }
  if (!status.ok()) return {status.signal == 0 ? std::max<int>(*code, 1) : 3, false, began, *code};
  return {*code, false, began, *code};
}

JobEnd run_until_begun(const Job& job) {
  for (int next = 2;; ++next) {
    const JobEnd end = run_mpirun(job);
    const bool failed = (end.lost && end.no_start.empty()) || end.code == 3;
    if (end.began || !failed || end.launcher_signal != 0 || interrupted_by != 0 || next > start_tries)
      return end;
    spdlog::warn("a rank was lost before the training began; starting the ranks again (try {} of {})", next,
                 start_tries);
  }
}

void leave_exit_code(int code) noexcept { leave_word(Word::exit_code, static_cast<char>(code)); }

void show_pulse_to_driver() noexcept { show_pulse_at(std::getenv(pulse_variable)); }

bool launched_by_us() noexcept { return std::getenv(exit_code_variable) != nullptr; }

bool exit_code_left() noexcept {
  const FileDescriptor file = words(O_RDONLY);
  return file && read_word(file.get(), Word::exit_code).has_value();
}

bool asked_by_driver() noexcept {
  static const FileDescriptor file = words(O_RDONLY);
  return file && read_word(file.get(), Word::leave).value_or(0) != 0;
}

void say_begun() noexcept { leave_word(Word::begun, 1); }

void say_given_up() noexcept { leave_word(Word::given_up, 1); }

}  // namespace bitrift::cli
