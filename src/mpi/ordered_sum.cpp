#include "mpi/ordered_sum.h"

#include <algorithm>
#include <climits>
#include <vector>

#include "mpi/checked.h"
#include "mpi/handles.h"

namespace bitrift::mpi {

template <typename T>
struct OrderedSum<T>::State {
  // Tags of point-to-point messages elsewhere stay below this; MPI guarantees tags up to 32767 only.
  static constexpr int first_tag = 1 << 14;
  enum class Phase { idle, to_owners, to_all };

  Communicator communicator;
  T* data;
  std::size_t count;
  int tag;
  std::shared_ptr<const void> owner;
  Phase phase = Phase::idle;
  std::vector<T> slices = {};  // [rank][my slice]
  std::vector<MPI_Request> requests = {};
  State* next = nullptr;  // of those that were given up

  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(communicator.size()); }
  [[nodiscard]] std::size_t me() const { return static_cast<std::size_t>(communicator.rank()); }
  [[nodiscard]] std::size_t begin(std::size_t rank) const { return count * rank / ranks(); }
  [[nodiscard]] std::size_t size(std::size_t rank) const { return begin(rank + 1) - begin(rank); }
  [[nodiscard]] static MPI_Datatype type() { return std::is_same_v<T, float> ? MPI_FLOAT : MPI_DOUBLE; }

  void send(const T* from, std::size_t length, std::size_t to) {
    requests.push_back(MPI_REQUEST_NULL);
    check_code(MPI_Isend(from, static_cast<int>(length), type(), static_cast<int>(to), first_tag + tag,
                         communicator.state().handle, &requests.back()),
               "MPI_Isend");
  }
  void receive(T* into, std::size_t length, std::size_t from) {
    requests.push_back(MPI_REQUEST_NULL);
    check_code(MPI_Irecv(into, static_cast<int>(length), type(), static_cast<int>(from), first_tag + tag,
                         communicator.state().handle, &requests.back()),
               "MPI_Irecv");
  }

  void send_to_owners() {
    const std::size_t mine = size(me());
    slices.resize(mine * ranks());
    for (std::size_t r = 0; r < ranks(); ++r) {
      if (r != me()) receive(slices.data() + mine * r, mine, r);
    }
    for (std::size_t r = 0; r < ranks(); ++r) {
      if (r != me()) send(data + begin(r), size(r), r);
    }
    phase = Phase::to_owners;
  }

  void add_and_send_back() {
    const std::size_t mine = size(me());
    T* sum = data + begin(me());
    std::copy_n(sum, mine, slices.data() + mine * me());
    std::copy_n(slices.data(), mine, sum);
    for (std::size_t r = 1; r < ranks(); ++r) {
      const T* next = slices.data() + mine * r;
      for (std::size_t i = 0; i < mine; ++i) sum[i] += next[i];
    }
    for (std::size_t r = 0; r < ranks(); ++r) {
      if (r != me()) receive(data + begin(r), size(r), r);
    }
    for (std::size_t r = 0; r < ranks(); ++r) {
      if (r != me()) send(sum, mine, r);
    }
    phase = Phase::to_all;
  }

  // True when all messages of this phase have completed.
  bool messages_done(bool block) {
    int done = 1;
    const int length = static_cast<int>(requests.size());
    if (block) {
      check_code(MPI_Waitall(length, requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    } else {
      check_code(MPI_Testall(length, requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    }
    if (done != 0) requests.clear();
    return done != 0;
  }

  // Whether MPI may still read or write the memory. Waits for nothing and throws nothing: another rank may be
  // gone for good.
  bool in_use() noexcept {
    if (requests.empty()) return false;
    int finalized = 0;
    if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return false;
    int done = 0;
    const int code =
        MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE);
    return code != MPI_SUCCESS || done == 0;
  }

  bool advance(bool block) {
    while (phase != Phase::idle && messages_done(block)) {
      if (phase == Phase::to_owners) {
        add_and_send_back();
      } else {
        phase = Phase::idle;
      }
    }
    return phase == Phase::idle;
  }
};

// A send cannot be cancelled in every library, and waiting for it could take for ever.
template <typename T>
void OrderedSum<T>::Release::operator()(State* state) const noexcept {
  static State* given_up = nullptr;
  if (state->in_use()) {
    state->next = given_up;
    given_up = state;
  } else {
    delete state;
  }
}

template <typename T>
OrderedSum<T>::OrderedSum(Communicator communicator, T* data, std::size_t count, int tag,
                          std::shared_ptr<const void> owner)
    : state_(new State{std::move(communicator), data, count, tag, std::move(owner)}) {
  if (count > static_cast<std::size_t>(INT_MAX)) {
    fail(ErrorCode::unsupported, "a sum over {} elements is beyond what one MPI call carries ({})", count,
         INT_MAX);
  }
}

template <typename T>
OrderedSum<T>::OrderedSum(OrderedSum&&) noexcept = default;
template <typename T>
OrderedSum<T>& OrderedSum<T>::operator=(OrderedSum&&) noexcept = default;
template <typename T>
OrderedSum<T>::~OrderedSum() = default;

template <typename T>
void OrderedSum<T>::start() {
  if (state_->ranks() > 1 && state_->count > 0) state_->send_to_owners();
}

template <typename T>
bool OrderedSum<T>::advance() {
  return state_->advance(false);
}

template <typename T>
void OrderedSum<T>::wait() {
  state_->advance(true);
}

template class OrderedSum<float>;
template class OrderedSum<double>;

}  // namespace bitrift::mpi
