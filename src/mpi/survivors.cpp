#include "mpi/survivors.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "core/log.h"
#include "mpi/checked.h"
#include "mpi/handles.h"
#include "mpi/pulse.h"

namespace bitrift::mpi {
namespace {

// Spawning ranks come first, spawned ones last.
Communicator merged(MPI_Comm between, bool spawned) {
  check_code(MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  const Waiting others;
  MPI_Comm handle = MPI_COMM_NULL;
  check_code(MPI_Intercomm_merge(between, spawned ? 1 : 0, &handle), "MPI_Intercomm_merge");
  Communicator all(adopt(handle));
  settle(handle);
  return all;
}

// For the processes that spawned this one; MPI_COMM_NULL: none did, or MPI has not begun.
MPI_Comm parent_group() {
  int started = 0;
  check_code(MPI_Initialized(&started), "MPI_Initialized");
  MPI_Comm parent = MPI_COMM_NULL;
  if (started != 0) check_code(MPI_Comm_get_parent(&parent), "MPI_Comm_get_parent");
  return parent;
}

}  // namespace

#ifdef MPIX_ERR_PROC_FAILED

namespace {

bool is_switched_on(const char* variable) noexcept {
  const char* value = std::getenv(variable);
  return value != nullptr && (std::string_view(value) == "1" || std::string_view(value) == "true");
}

}  // namespace

// mpirun sets these variables.
bool survives_failures() noexcept { return is_switched_on("OMPI_MCA_mpi_ft_enable"); }
bool watches_heartbeats() noexcept { return is_switched_on("OMPI_MCA_mpi_ft_detector_thread"); }

std::vector<std::string> survival_options(bool detector) {
  std::vector<std::string> options = {"--with-ft", "ulfm"};
  if (detector) {
    // Without a separate thread, a rank that computes for long gives no heartbeat, and is declared dead.
    for (const auto& [name, value] : {std::pair{"mpi_ft_detector", "1"},
                                      {"mpi_ft_detector_thread", "1"},
                                      {"mpi_ft_detector_period", "0.1"},
                                      {"mpi_ft_detector_timeout", "0.5"}}) {
      options.insert(options.end(), {"--mca", name, value});
    }
  }
  return options;
}

void revoke(const Communicator& communicator) noexcept {
  if (communicator.size() == 1 || !survives_failures()) return;
  const int code = MPIX_Comm_revoke(communicator.state().handle);
  if (code != MPI_SUCCESS) spdlog::warn("MPIX_Comm_revoke: error code {}", code);
}

std::vector<int> failed_ranks(const Communicator& communicator) {
  if (communicator.size() == 1 || !survives_failures()) return {};
  MPI_Comm handle = communicator.state().handle;
  MPI_Group failed = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
  check_code(MPIX_Comm_get_failed(handle, &failed), "MPIX_Comm_get_failed");
  check_code(MPI_Comm_group(handle, &all), "MPI_Comm_group");
  int count = 0;
  check_code(MPI_Group_size(failed, &count), "MPI_Group_size");
  std::vector<int> places(static_cast<std::size_t>(count)), ranks(places.size());
  std::iota(places.begin(), places.end(), 0);
  check_code(MPI_Group_translate_ranks(failed, count, places.data(), all, ranks.data()),
             "MPI_Group_translate_ranks");
  MPI_Group_free(&failed);
  MPI_Group_free(&all);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

bool all_agree(const Communicator& communicator, bool mine) {
  if (communicator.size() == 1) return mine;
  const Waiting others;
  MPI_Comm handle = communicator.state().handle;
  int yes = mine ? 1 : 0;
  if (!survives_failures()) {
    check_code(MPI_Allreduce(MPI_IN_PLACE, &yes, 1, MPI_INT, MPI_MIN, handle), "MPI_Allreduce");
    return yes != 0;
  }
  int acknowledged = 0;
  check_code(MPIX_Comm_ack_failed(handle, communicator.size(), &acknowledged), "MPIX_Comm_ack_failed");
  const int code = MPIX_Comm_agree(handle, &yes);
  // A death that some rank has not acknowledged is an error, and yet all get the same answer.
  if (!is_rank_failure(code)) check_code(code, "MPIX_Comm_agree");
  return yes != 0;
}

// A death that some rank has not acknowledged is an error on all ranks; one that all have acknowledged is
// known to all.
bool nobody_died(const Communicator& communicator) {
  if (communicator.size() == 1 || !survives_failures()) return true;
  const Waiting others;
  int yes = failed_ranks(communicator).empty() ? 1 : 0;
  const int code = MPIX_Comm_agree(communicator.state().handle, &yes);
  if (is_rank_failure(code)) return false;
  check_code(code, "MPIX_Comm_agree");
  return yes != 0;
}

Communicator shrink(const Communicator& communicator) {
  if (communicator.size() == 1) return communicator;
  if (!survives_failures())
    fail(ErrorCode::unsupported,
         "the other ranks cannot continue: mpirun was started without --with-ft ulfm");
  const Waiting others;
  MPI_Comm handle = MPI_COMM_NULL;
  check_code(MPIX_Comm_shrink(communicator.state().handle, &handle), "MPIX_Comm_shrink");
  Communicator living(adopt(handle));
  try {
    settle(handle);
  } catch (const RankFailed& failed) {
    spdlog::debug("after MPIX_Comm_shrink: {}", failed.what());  // as the next call does
  }
  return living;
}

#else

bool survives_failures() noexcept { return false; }
bool watches_heartbeats() noexcept { return false; }
std::vector<std::string> survival_options(bool) { return {}; }
void revoke(const Communicator&) noexcept {}
std::vector<int> failed_ranks(const Communicator&) { return {}; }
bool nobody_died(const Communicator&) { return true; }

bool all_agree(const Communicator& communicator, bool mine) {
  if (communicator.size() == 1) return mine;
  const Waiting others;
  int yes = mine ? 1 : 0;
  check_code(MPI_Allreduce(MPI_IN_PLACE, &yes, 1, MPI_INT, MPI_MIN, communicator.state().handle),
             "MPI_Allreduce");
  return yes != 0;
}

Communicator shrink(const Communicator& communicator) {
  if (communicator.size() == 1) return communicator;
  fail(ErrorCode::unsupported, "the other ranks cannot continue: this MPI library has no ULFM");
}

#endif

Communicator spawn(const Communicator& communicator, const std::vector<std::string>& command) {
  if (!communicator.has_state())
    fail(ErrorCode::unsupported, "processes can be added only to ranks that mpirun started");
  if (command.empty()) fail(ErrorCode::internal, "spawning a process of no program");
  std::vector<std::string> arguments(command.begin() + 1, command.end());
  std::vector<char*> words;
  words.reserve(command.size());
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  const Waiting others;
  MPI_Comm between = MPI_COMM_NULL;
  try {
    check_code(MPI_Comm_spawn(command[0].c_str(), words.data(), 1, MPI_INFO_NULL, 0,
                              communicator.state().handle, &between, MPI_ERRCODES_IGNORE),
               "MPI_Comm_spawn");
  } catch (const RankFailed&) {
    throw;
  } catch (const Error& error) {  // Open MPI 5.0.11 says MPI_ERR_UNKNOWN where it has no slot
    fail(error.code(), "{}; an mpirun of your own needs --oversubscribe, or more slots than ranks",
         error.what());
  }
  return merged(between, false);
}

std::optional<Communicator> spawned_into() {
  MPI_Comm parent = parent_group();
  if (parent == MPI_COMM_NULL) return std::nullopt;
  return merged(parent, true);
}

bool is_spawned() { return parent_group() != MPI_COMM_NULL; }

}  // namespace bitrift::mpi
