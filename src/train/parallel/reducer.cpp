#include "train/parallel/reducer.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <ranges>
#include <utility>

#include "core/error.h"
#include "train/parallel/bucket_sum.h"

namespace bitrift::train {
namespace {

// Measured with ResNet-20 (1.1 MB of gradients): small enough that most buckets travel during the backward
// pass, large enough that a message costs more than its start.
constexpr std::int64_t bucket_bytes = std::int64_t{1} << 18;

struct BucketMember {
  std::string key;
  torch::Tensor parameter;
  std::int64_t start = 0;                  // element in the bucket
  std::vector<torch::Tensor> places = {};  // its part of each flat array
};

// Neighbouring gradients in one flat array on the host for each replica that this rank computes. The means go
// into the first.
template <typename T>
struct Bucket {
  std::vector<BucketMember> members = {};
  std::vector<torch::Tensor> flats = {};
  std::int64_t number = 0;
  std::optional<BucketSum<T>> sum = {};
  std::size_t taken = 0;  // gradients of the current replica
  bool under_way = false;
};

template <typename T>
class BucketReducer : public Reducer {
 public:
  BucketReducer(const std::vector<nn::Slot>& slots, const Layout& layout, bool scale_first,
                KillPoint& kill_point, FaultyLinks& links, ComputeFlips& flips)
      : layout_(layout),
        scale_first_(scale_first),
        share_(1.0 / layout.replica_count()),
        mine_(layout.replicas.size()),
        kill_point_(kill_point),
        links_(links),
        flips_(flips) {
    fill_buckets(slots);
    std::shared_ptr<const mpi::LocalSchedule> schedule;
    if (layout.mesh) schedule = plan_share(*layout.mesh, largest_bucket(), layout.peers.rank());
    make_sums(schedule);
    for (Bucket<T>& bucket : buckets_) {
      for (std::size_t m = 0; m < bucket.members.size(); ++m) {
        if (!bucket.members[m].parameter.is_cpu()) continue;
        torch::autograd::impl::set_post_acc_grad_hooks(bucket.members[m].parameter,
                                                       std::make_unique<Hook>(*this, bucket, m));
      }
    }
  }

  ~BucketReducer() override {
    for (const Bucket<T>& bucket : buckets_) {
      for (const BucketMember& member : bucket.members) {
        if (member.parameter.is_cpu())
          torch::autograd::impl::set_post_acc_grad_hooks(member.parameter, nullptr);
      }
    }
  }
  BucketReducer(BucketReducer&&) = delete;
  BucketReducer& operator=(BucketReducer&&) = delete;

  void arm(std::size_t index) override {
    armed_ = true;
    index_ = index;
    for (Bucket<T>& bucket : buckets_) bucket.taken = 0;
  }

  // A card's gradients: MPI requires the thread that initialised it (MPI_THREAD_FUNNELED), and hooks of a
  // card's parameters run on a thread that autograd keeps for the device.
  void taken() override {
    armed_ = false;
    for (Bucket<T>& bucket : buckets_) {
      for (BucketMember& member : bucket.members) {
        if (!member.parameter.is_cpu() && member.parameter.grad().defined()) take(bucket, member);
      }
    }
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  void route(const record::MeshSpec& mesh) override {
    make_sums(plan_share(mesh, largest_bucket(), layout_.peers.rank()));
  }

  void finish() override {
    for (Bucket<T>& bucket : buckets_) {
      kill_point_.reach(record::TrainingPhase::reduce, bucket.number,
                        static_cast<std::int64_t>(buckets_.size()));
      if (!bucket.under_way) fail(ErrorCode::internal, "a backward pass left a parameter without gradient");
      bucket.sum->wait();
      if (!scale_first_) bucket.flats[0].mul_(share_);
      for (BucketMember& member : bucket.members) put_back(member);
      bucket.taken = 0;
      bucket.under_way = false;
    }
  }

 private:
  struct Hook : torch::autograd::PostAccumulateGradHook {
    Hook(BucketReducer& owner_, Bucket<T>& bucket_, std::size_t member_)
        : owner(owner_), bucket(bucket_), member(member_) {}
    void operator()(const torch::autograd::Variable&) override {
      if (owner.armed_) owner.take(bucket, bucket.members[member]);
    }
    BucketReducer& owner;
    Bucket<T>& bucket;
    std::size_t member;
  };

  void make_sums(const std::shared_ptr<const mpi::LocalSchedule>& schedule) {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      Bucket<T>& bucket = buckets_[b];
      bucket.number = static_cast<std::int64_t>(b);
      std::vector<T*> terms;
      for (const torch::Tensor& flat : bucket.flats) terms.push_back(flat.template data_ptr<T>());
      bucket.sum.emplace(layout_, schedule, terms, static_cast<std::size_t>(bucket.flats[0].numel()),
                         static_cast<int>(b), std::make_shared<std::vector<torch::Tensor>>(bucket.flats));
    }
  }

  // From the last layer to the first, the order of a backward pass. A deque, because hooks keep references.
  void fill_buckets(const std::vector<nn::Slot>& slots) {
    std::int64_t size = 0;
    const auto close = [&] {
      if (size == 0) return;
      Bucket<T>& bucket = buckets_.back();
      const bool pinned = !bucket.members.front().parameter.is_cpu();
      for (std::size_t i = 0; i < mine_; ++i) {
        const torch::Tensor flat = torch::empty(
            {size}, torch::TensorOptions(torch::CppTypeToScalarType<T>::value).pinned_memory(pinned));
        bucket.flats.push_back(flat);
        for (BucketMember& member : bucket.members) {
          const std::int64_t end = member.start + member.parameter.numel();
          member.places.push_back(flat.slice(0, member.start, end).view(member.parameter.sizes()));
        }
      }
      size = 0;
    };
    for (const nn::Slot& slot : std::views::reverse(slots)) {
      if (!slot.trained) continue;
      if (size == 0) buckets_.emplace_back();
      buckets_.back().members.push_back({slot.key, slot.value, size});
      size += slot.value.numel();
      if (size * static_cast<std::int64_t>(sizeof(T)) >= bucket_bytes) close();
    }
    close();
  }

  [[nodiscard]] double largest_bucket() const {
    std::size_t bytes = 0;
    for (const Bucket<T>& bucket : buckets_) bytes = std::max(bytes, bucket.flats[0].nbytes());
    return static_cast<double>(bytes);
  }

  // Autograd returns a gradient separately instead of adding it to the bucket, because 0 + (-0) would lose a
  // sign that plain PyTorch keeps.
  void take(Bucket<T>& bucket, BucketMember& member) {
    const torch::NoGradGuard no_grad;
    flips_.weight_gradient(layout_.replicas[index_], member.key, member.parameter.grad());
    torch::Tensor& place = member.places[index_];
    place.copy_(member.parameter.grad());
    if (scale_first_) place.mul_(share_);
    ++bucket.taken;
    if (index_ + 1 < mine_ || failure_) return;
    // Autograd is on the stack: a dead peer is reported when the pass is over.
    try {
      if (bucket.taken == bucket.members.size()) {
        bucket.sum->start(links_, bucket.number);
        bucket.under_way = true;
      }
      for (Bucket<T>& other : buckets_) {
        if (other.under_way) other.sum->advance();
      }
    } catch (const mpi::RankFailed&) {
      failure_ = std::current_exception();
    }
  }

  static void put_back(BucketMember& member) {
    torch::Tensor& gradient = member.parameter.mutable_grad();
    const torch::Tensor& mean = member.places[0];
    if (gradient.is_cpu() && gradient.scalar_type() == mean.scalar_type()) {
      gradient = mean;
    } else {
      gradient.copy_(mean);
    }
  }

  const Layout& layout_;
  bool scale_first_;
  double share_;
  std::size_t mine_;  // number of replicas that this rank computes
  KillPoint& kill_point_;
  FaultyLinks& links_;
  ComputeFlips& flips_;
  bool armed_ = false;
  std::size_t index_ = 0;            // of the current replica
  std::exception_ptr failure_ = {};  // death of a peer in a sum that was started or advanced within a pass
  std::deque<Bucket<T>> buckets_;
};

class NoReducer : public Reducer {
 public:
  NoReducer(std::vector<nn::Slot> slots, KillPoint& kill_point, ComputeFlips& flips)
      : slots_(std::move(slots)), kill_point_(kill_point), flips_(flips) {}
  void arm(std::size_t /*index*/) override {}
  void taken() override {
    if (!flips_.near()) return;
    for (const nn::Slot& slot : slots_) {
      if (slot.trained) flips_.weight_gradient(0, slot.key, slot.value.grad());
    }
  }
  void finish() override { kill_point_.reach(record::TrainingPhase::reduce, 0, 1); }
  void route(const record::MeshSpec& /*mesh*/) override {}

 private:
  std::vector<nn::Slot> slots_;
  KillPoint& kill_point_;
  ComputeFlips& flips_;
};

}  // namespace

std::unique_ptr<Reducer> make_bucket_reducer(const std::vector<nn::Slot>& slots, const Layout& layout,
                                             record::Semantics semantics, KillPoint& kill_point,
                                             FaultyLinks& links, ComputeFlips& flips) {
  if (layout.replica_count() == 1) return std::make_unique<NoReducer>(slots, kill_point, flips);
  const bool scale_first = semantics == record::Semantics::ddp;
  const auto trained =
      std::find_if(slots.begin(), slots.end(), [](const auto& slot) { return slot.trained; });
  if (trained != slots.end() && trained->value.scalar_type() == torch::kFloat64) {
    return std::make_unique<BucketReducer<double>>(slots, layout, scale_first, kill_point, links, flips);
  }
  return std::make_unique<BucketReducer<float>>(slots, layout, scale_first, kill_point, links, flips);
}

std::vector<std::int64_t> bucket_sizes(const std::vector<std::int64_t>& elements,
                                       std::int64_t element_bytes) {
  std::vector<std::int64_t> sizes;
  std::int64_t size = 0;
  for (const std::int64_t one : std::views::reverse(elements)) {
    size += one;
    if (size * element_bytes < bucket_bytes) continue;
    sizes.push_back(std::exchange(size, 0));
  }
  if (size > 0) sizes.push_back(size);
  return sizes;
}

}  // namespace bitrift::train
