#include "mpi/environment.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include <unistd.h>

#include "core/log.h"
#include "mpi/checked.h"
#include "mpi/handles.h"
#include "mpi/launcher_watch.h"
#include "mpi/pulse.h"
#include "mpi/survivors.h"

namespace bitrift::mpi {
namespace {

int first_number(std::initializer_list<const char*> names) noexcept {
  for (const char* name : names) {
    if (const char* text = std::getenv(name); text != nullptr && *text != '\0')
      return static_cast<int>(std::strtol(text, nullptr, 10));
  }
  return -1;
}

}  // namespace

bool started_by_launcher() noexcept {
  // SLURM_PROCID proves nothing: it is set in a plain batch script too.
  return first_number({"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK"}) >= 0;
}

int launched_ranks() noexcept {
  return std::max(0, first_number({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}));
}

int launched_rank() noexcept {
  return std::max(0, first_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}));
}

std::vector<std::string> launcher_options([[maybe_unused]] bool exit_codes_are_mine) {
  std::vector<std::string> options;
#if defined(OPEN_MPI) && OPEN_MPI
  options = {"--oversubscribe", "--bind-to", "none"};
#if OMPI_MAJOR_VERSION >= 5
  if (exit_codes_are_mine) options.insert(options.end(), {"--runtime-options", "error-nonzero-status=0"});
#endif
#endif
  return options;
}

bool reads_device_memory() noexcept {
#ifdef MPIX_CUDA_AWARE_SUPPORT  // its value is that of the library at compile time; ask the one that runs
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

Environment::Environment() {
  if (!started_by_launcher()) return;
  end_with_launcher();
  int provided = MPI_THREAD_SINGLE;
  // Open MPI's thread for heartbeats needs its locks, but does not request them.
  const int wanted = watches_heartbeats() ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
  check_code(MPI_Init_thread(nullptr, nullptr, wanted, &provided), "MPI_Init_thread");
  active_ = true;
  // A spawned rank that dies leaves a socket, and a write to it must return an error instead of ending the
  // process.
  if (survives_failures()) std::signal(SIGPIPE, SIG_IGN);
  check_code(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (provided < MPI_THREAD_FUNNELED) {
    fail(ErrorCode::unsupported,
         "this MPI library does not support MPI_THREAD_FUNNELED; install one built with thread support");
  }
  world_ = Communicator(adopt(MPI_COMM_WORLD));
}

Environment::~Environment() {
  if (!active_ || (std::uncaught_exceptions() > 0 && world_.size() > 1)) return;
  try {
    finalize();
  } catch (const std::exception& error) {
    spdlog::warn("{}", error.what());
  }
}

void Environment::finalize() {
  if (!active_) return;
  active_ = false;
  const Waiting others;
  check_code(MPI_Finalize(), "MPI_Finalize");
}

void Environment::abort(int code) {
  if (active_) MPI_Abort(MPI_COMM_WORLD, code);
  std::exit(code);
}

void Environment::leave(int code, const Communicator& survivors) noexcept {
  try {
    survivors.barrier();
  } catch (const std::exception& error) {
    spdlog::debug("{}", error.what());  // another one died; nobody needs this rank any more
  }
  spdlog::default_logger()->flush();
  std::fflush(nullptr);
  ::_exit(code);
}

std::string Environment::library() const {
  if (!active_) return "none";
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_code(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  // The length counts the final NUL in some libraries (Open MPI), and some texts have more than one line.
  const std::string_view all(text.data(), static_cast<std::size_t>(length));
  return std::string(all.substr(0, all.find_first_of(std::string_view("\0\n", 2))));
}

}  // namespace bitrift::mpi
