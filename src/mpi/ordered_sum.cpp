#include "mpi/ordered_sum.h"

#include <algorithm>
#include <climits>
#include <numeric>
#include <optional>
#include <vector>

#include "mpi/checked.h"
#include "mpi/handles.h"
#include "mpi/left_over.h"
#include "mpi/pulse.h"

namespace bitrift::mpi {
namespace {

std::vector<int> one_each(int ranks) {
  std::vector<int> holders(static_cast<std::size_t>(ranks));
  std::iota(holders.begin(), holders.end(), 0);
  return holders;
}

}  // namespace

template <typename T>
struct OrderedSum<T>::State : LeftOver {
  enum class Phase { idle, to_owners, to_all };

  Communicator communicator;
  std::vector<T*> terms;  // of this rank
  std::size_t count;
  std::vector<int> holders;  // [term]
  int tag;
  std::shared_ptr<const void> owner;
  Phase phase = Phase::idle;
  std::vector<T> slices = {};  // [term][my slice]; the places of this rank's own terms stay unused
  std::vector<MPI_Request> requests = {};

  State(Communicator ranks_of, std::vector<T*> mine_of, std::size_t elements, std::vector<int> held_by,
        int its_tag, std::shared_ptr<const void> its_owner)
      : communicator(std::move(ranks_of)),
        terms(std::move(mine_of)),
        count(elements),
        holders(std::move(held_by)),
        tag(its_tag),
        owner(std::move(its_owner)) {}

  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(communicator.size()); }
  [[nodiscard]] std::size_t me() const { return static_cast<std::size_t>(communicator.rank()); }
  [[nodiscard]] bool mine(std::size_t term) const { return holders[term] == communicator.rank(); }
  [[nodiscard]] bool holds(std::size_t rank) const {
    return std::find(holders.begin(), holders.end(), static_cast<int>(rank)) != holders.end();
  }
  [[nodiscard]] std::size_t begin(std::size_t rank) const { return count * rank / ranks(); }
  [[nodiscard]] std::size_t size(std::size_t rank) const { return begin(rank + 1) - begin(rank); }
  [[nodiscard]] static MPI_Datatype type() { return std::is_same_v<T, float> ? MPI_FLOAT : MPI_DOUBLE; }

  void check() const {
    if (count > static_cast<std::size_t>(INT_MAX)) {
      fail(ErrorCode::unsupported, "a sum over {} elements is beyond what one MPI call carries ({})", count,
           INT_MAX);
    }
    if (holders.empty()) fail(ErrorCode::internal, "a sum without terms");
    for (std::size_t v = 0; v < holders.size(); ++v) {
      if (holders[v] < 0 || holders[v] >= communicator.size()) {
        fail(ErrorCode::internal, "term {} of a sum is on rank {}, and there are {} ranks", v, holders[v],
             communicator.size());
      }
    }
    const auto here = std::count(holders.begin(), holders.end(), communicator.rank());
    if (terms.size() != static_cast<std::size_t>(here)) {
      fail(ErrorCode::internal, "rank {} holds {} terms of a sum and passes {}", communicator.rank(), here,
           terms.size());
    }
    if (count > 0 && std::find(terms.begin(), terms.end(), nullptr) != terms.end())
      fail(ErrorCode::internal, "a term of a sum has no array");
  }

  void send(const T* from, std::size_t length, std::size_t to) {
    if (length == 0) return;
    requests.push_back(MPI_REQUEST_NULL);
    check_code(MPI_Isend(from, static_cast<int>(length), type(), static_cast<int>(to), first_sum_tag + tag,
                         communicator.state().handle, &requests.back()),
               "MPI_Isend");
  }
  void receive(T* into, std::size_t length, std::size_t from) {
    if (length == 0) return;
    requests.push_back(MPI_REQUEST_NULL);
    check_code(MPI_Irecv(into, static_cast<int>(length), type(), static_cast<int>(from), first_sum_tag + tag,
                         communicator.state().handle, &requests.back()),
               "MPI_Irecv");
  }

  // Several terms of one rank travel to an owner by ascending term, and MPI keeps their order.
  void send_to_owners() {
    const std::size_t length = size(me());
    slices.resize(length * holders.size());
    phase = Phase::to_owners;
    for (std::size_t v = 0; v < holders.size(); ++v) {
      if (!mine(v)) receive(slices.data() + length * v, length, static_cast<std::size_t>(holders[v]));
    }
    for (std::size_t r = 0; r < ranks(); ++r) {
      for (std::size_t t = 0; r != me() && t < terms.size(); ++t) send(terms[t] + begin(r), size(r), r);
    }
  }

  // The sum of my slice, in the first of my terms if I have one.
  T* add() {
    const std::size_t length = size(me()), start = begin(me());
    T* sum = mine(0) ? terms[0] + start : slices.data();
    std::size_t used = mine(0) ? 1 : 0;  // of my terms
    for (std::size_t v = 1; v < holders.size(); ++v) {
      const T* next = mine(v) ? terms[used++] + start : slices.data() + length * v;
      for (std::size_t i = 0; i < length; ++i) sum[i] += next[i];
    }
    if (terms.empty() || mine(0)) return sum;
    return std::copy_n(sum, length, terms[0] + start) - length;
  }

  void add_and_send_back() {
    const T* sum = add();
    phase = Phase::to_all;
    for (std::size_t r = 0; r < ranks() && !terms.empty(); ++r) {
      if (r != me()) receive(terms[0] + begin(r), size(r), r);
    }
    for (std::size_t r = 0; r < ranks(); ++r) {
      if (r != me() && holds(r)) send(sum, size(me()), r);
    }
  }

  // True when all messages of this phase have completed.
  bool messages_done(bool block) {
    std::optional<Waiting> others;
    if (block) others.emplace();
    do {
      check_code(forget_ended(requests, block), "MPI_Test");
    } while (block && !requests.empty());
    return requests.empty();
  }

  bool in_use() noexcept override { return any_under_way(requests); }

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

template <typename T>
void OrderedSum<T>::Release::operator()(State* state) const noexcept {
  give_up(state);
}

template <typename T>
OrderedSum<T>::OrderedSum(Communicator communicator, std::vector<T*> terms, std::size_t count,
                          std::vector<int> holders, int tag, std::shared_ptr<const void> owner)
    : state_(new State(std::move(communicator), std::move(terms), count, std::move(holders), tag,
                       std::move(owner))) {
  state_->check();
}

template <typename T>
OrderedSum<T>::OrderedSum(const Communicator& communicator, T* data, std::size_t count, int tag,
                          std::shared_ptr<const void> owner)
    : OrderedSum(communicator, std::vector<T*>{data}, count, one_each(communicator.size()), tag,
                 std::move(owner)) {}

template <typename T>
OrderedSum<T>::OrderedSum(OrderedSum&&) noexcept = default;
template <typename T>
OrderedSum<T>& OrderedSum<T>::operator=(OrderedSum&&) noexcept = default;
template <typename T>
OrderedSum<T>::~OrderedSum() = default;

template <typename T>
void OrderedSum<T>::start() {
  if (state_->count > 0 && (state_->ranks() > 1 || state_->terms.size() > 1)) state_->send_to_owners();
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
