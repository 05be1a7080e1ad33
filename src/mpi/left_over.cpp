#include "mpi/left_over.h"

#include "mpi/checked.h"

namespace bitrift::mpi {

void give_up(LeftOver* memory) noexcept {
  static LeftOver* given_up = nullptr;
  memory->next_left = given_up;
  given_up = memory;
  for (LeftOver** place = &given_up; *place != nullptr;) {
    LeftOver* looked_at = *place;
    if (looked_at->in_use()) {
      place = &looked_at->next_left;
    } else {
      *place = looked_at->next_left;
      delete looked_at;
    }
  }
}

int forget_ended(std::vector<MPI_Request>& requests, bool all) noexcept {
  int worst = MPI_SUCCESS;
  std::size_t kept = 0;
  bool look_on = true;
  for (MPI_Request& request : requests) {
    int done = 0;
    const int code =
        look_on && request != MPI_REQUEST_NULL ? MPI_Test(&request, &done, MPI_STATUS_IGNORE) : MPI_SUCCESS;
    if (worst == MPI_SUCCESS || is_rank_failure(code)) worst = code;
    if (request == MPI_REQUEST_NULL) continue;
    requests[kept++] = request;
    look_on = all;
  }
  requests.resize(kept);
  return worst;
}

bool any_under_way(std::vector<MPI_Request>& requests) noexcept {
  int finalized = 0;
  if (requests.empty() || MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return false;
  (void)forget_ended(requests, true);
  return !requests.empty();
}

}  // namespace bitrift::mpi
