#include "train/parallel/bucket_sum.h"

#include <algorithm>
#include <bit>
#include <map>
#include <type_traits>
#include <utility>

#include "comm/plan/planner.h"
#include "comm/verify.h"
#include "core/error.h"
#include "core/log.h"

namespace bitrift::train {
namespace {

template <typename T>
using AnySum = std::variant<mpi::OrderedSum<T>, mpi::MeshAllreduce<T>>;

template <typename T>
AnySum<T> make_sum(const Layout& layout, const std::shared_ptr<const mpi::LocalSchedule>& schedule,
                   std::vector<T*> flats, std::size_t count, int tag, std::shared_ptr<const void> owner) {
  if (!schedule)
    return mpi::OrderedSum<T>(layout.peers, std::move(flats), count, layout.holders, tag, std::move(owner));
  return mpi::MeshAllreduce<T>(layout.peers, schedule, flats.front(), count, tag, std::move(owner));
}

}  // namespace

comm::Schedule plan_gradients(const record::MeshSpec& mesh, double bytes) {
  comm::Workload work;
  work.bytes = bytes;
  return comm::plan_schedule(mesh.topology, mesh.schedule, work);
}

std::shared_ptr<const mpi::LocalSchedule> plan_share(const record::MeshSpec& mesh, double bytes, int rank) {
  const comm::Schedule schedule = plan_gradients(mesh, bytes);
  const comm::Verdict verdict = comm::verify(schedule);
  if (verdict.counter_example) {
    fail(ErrorCode::internal, "the schedule {} that was planned for the mesh is not an allreduce: {}",
         name_of(mesh.schedule), verdict.counter_example->text);
  }
  if (!verdict.proof.one_order) {
    fail(ErrorCode::internal,
         "the schedule {} that was planned for the mesh adds in different orders, so replicas would differ",
         name_of(mesh.schedule));
  }
  if (rank == 0) {
    spdlog::info("mesh {}x{}, {} chips alive: {}, {} sends of {} chunks, proved", mesh.topology.rows(),
                 mesh.topology.columns(), mesh.ranks(), name_of(mesh.schedule), schedule.size(),
                 schedule.chunks());
  }
  return std::make_shared<const mpi::LocalSchedule>(schedule, rank);
}

template <typename T>
BucketSum<T>::BucketSum(const Layout& layout, const std::shared_ptr<const mpi::LocalSchedule>& schedule,
                        std::vector<T*> flats, std::size_t count, int tag, std::shared_ptr<const void> owner)
    : layout_(&layout),
      added_first_(schedule ? flats : std::vector<T*>()),
      count_(count),
      sum_(make_sum<T>(layout, schedule, std::move(flats), count, tag, std::move(owner))) {}

// The array holds what arrived over the link, and nobody reads it before it is added or copied.
template <typename T>
void BucketSum<T>::meet_flips(MessageFlips& flips, std::int64_t bucket) {
  auto* const sum = std::get_if<mpi::MeshAllreduce<T>>(&sum_);
  if (sum == nullptr) return;
  std::vector<record::LinkFault> faults = flips.of_bucket(bucket);
  if (faults.empty()) return sum->on_arrival({});
  sum->on_arrival([&flips, faults = std::move(faults), mesh = layout_->mesh->topology,
                   rank = layout_->peers.rank()](const typename mpi::MeshAllreduce<T>::Arrival& arrival) {
    for (const record::LinkFault& fault : faults) {
      if (fault.send != arrival.step.send || fault.element >= static_cast<std::int64_t>(arrival.count))
        continue;
      using Pattern = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
      T& number = arrival.data[fault.element];
      const auto before = std::bit_cast<Pattern>(number);
      const auto after = static_cast<Pattern>(before ^ (Pattern{1} << static_cast<unsigned>(fault.bit)));
      number = std::bit_cast<T>(after);
      const auto place = [&](int of) {
        return record::place_of(mesh, mesh.live()[static_cast<std::size_t>(of)]);
      };
      flips.note(
          {fault, place(arrival.from), place(rank), arrival.step.chunk,
           arrival.step.kind == comm::SendKind::add ? record::MessageKind::add : record::MessageKind::copy,
           sizeof(T) == 8 ? "float64" : "float32", before, after});
    }
  });
}

// Messages that leave this rank, that is, those of the link in one direction.
template <typename T>
void BucketSum<T>::meet_slow_links(LinkFailures& failures) {
  auto* const sum = std::get_if<mpi::MeshAllreduce<T>>(&sum_);
  if (sum == nullptr) return;
  if (!failures.any()) return sum->on_send({});  // an earlier run may have had slow links
  const comm::Topology& mesh = layout_->mesh->topology;
  const int me = mesh.live()[static_cast<std::size_t>(layout_->peers.rank())];
  std::map<int, record::FailedLink> slow;  // by the rank at the other end
  for (const record::FailedLink& link : failures.failed()) {
    if (link.kind != record::LinkFailure::slow) continue;
    const auto [one, other] = record::ends_of(mesh, link);
    if ((one != me && other != me) || !mesh.linked(one, other)) continue;
    const auto place = std::ranges::lower_bound(mesh.live(), one == me ? other : one);
    slow.emplace(static_cast<int>(place - mesh.live().begin()), link);
  }
  if (slow.empty()) return sum->on_send({});
  sum->on_send([&failures, slow = std::move(slow)](int to) {
    const auto found = slow.find(to);
    if (found == slow.end()) return 0.0;
    failures.count(found->second);
    return found->second.delay;
  });
}

template <typename T>
void BucketSum<T>::start(FaultyLinks& links, std::int64_t bucket) {
  meet_flips(links.flips, bucket);
  meet_slow_links(links.failures);
  for (std::size_t r = 1; r < added_first_.size(); ++r) {
    T* const sum = added_first_.front();
    for (std::size_t i = 0; i < count_; ++i) sum[i] += added_first_[r][i];
  }
  std::visit([](auto& sum) { sum.start(); }, sum_);
}

template <typename T>
bool BucketSum<T>::advance() {
  return std::visit([](auto& sum) { return sum.advance(); }, sum_);
}

template <typename T>
void BucketSum<T>::wait() {
  std::visit([](auto& sum) { sum.wait(); }, sum_);
}

template class BucketSum<float>;
template class BucketSum<double>;

}  // namespace bitrift::train
