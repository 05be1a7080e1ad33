#include "train/parallel/reducer.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>

#include "core/error.h"
#include "mpi/ordered_sum.h"

namespace bitrift::train {
namespace {

// Measured with ResNet-20 (1.1 MB of gradients): small enough that most of them travel during the backward
// pass, large enough that a message costs more than its start.
constexpr std::int64_t bucket_bytes = std::int64_t{1} << 18;

struct Member {
  torch::Tensor parameter;
  std::int64_t start = 0;    // element in the bucket
  torch::Tensor place = {};  // its part of the bucket
};

// Neighbouring gradients in one flat array on the host.
template <typename T>
struct Bucket {
  std::vector<Member> members = {};
  torch::Tensor flat = {};
  std::optional<mpi::OrderedSum<T>> sum = {};
  std::size_t taken = 0;
  bool under_way = false;
};

template <typename T>
class BucketReducer : public Reducer {
 public:
  BucketReducer(const std::vector<nn::Slot>& slots, const mpi::Communicator& replicas, bool scale_first)
      : scale_first_(scale_first), share_(1.0 / replicas.size()) {
    fill_buckets(slots);
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      Bucket<T>& bucket = buckets_[b];
      bucket.sum.emplace(replicas, bucket.flat.template data_ptr<T>(),
                         static_cast<std::size_t>(bucket.flat.numel()), static_cast<int>(b),
                         std::make_shared<torch::Tensor>(bucket.flat));
      for (std::size_t m = 0; m < bucket.members.size(); ++m) {
        if (!bucket.members[m].parameter.is_cpu()) continue;
        torch::autograd::impl::set_post_acc_grad_hooks(bucket.members[m].parameter,
                                                       std::make_unique<Hook>(*this, bucket, m));
      }
    }
  }

  ~BucketReducer() override {
    for (const Bucket<T>& bucket : buckets_) {
      for (const Member& member : bucket.members) {
        if (member.parameter.is_cpu())
          torch::autograd::impl::set_post_acc_grad_hooks(member.parameter, nullptr);
      }
    }
  }
  BucketReducer(BucketReducer&&) = delete;
  BucketReducer& operator=(BucketReducer&&) = delete;

  void arm() override { armed_ = true; }

  void finish() override {
    armed_ = false;
    // A card's gradients: MPI wants the thread that initialised it (MPI_THREAD_FUNNELED), and hooks of a
    // card's parameters run on a thread that autograd keeps for the device.
    for (Bucket<T>& bucket : buckets_) {
      for (Member& member : bucket.members) {
        if (!member.parameter.is_cpu() && member.parameter.grad().defined()) take(bucket, member);
      }
    }
    for (Bucket<T>& bucket : buckets_) {
      if (!bucket.under_way) fail(ErrorCode::internal, "a backward pass left a parameter without gradient");
      bucket.sum->wait();
      if (!scale_first_) bucket.flat.mul_(share_);
      for (Member& member : bucket.members) put_back(member);
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

  // From the last layer to the first, as a backward pass goes. A deque, because hooks keep references.
  void fill_buckets(const std::vector<nn::Slot>& slots) {
    std::int64_t size = 0;
    const auto close = [&] {
      if (size == 0) return;
      Bucket<T>& bucket = buckets_.back();
      const bool pinned = !bucket.members.front().parameter.is_cpu();
      bucket.flat = torch::empty(
          {size}, torch::TensorOptions(torch::CppTypeToScalarType<T>::value).pinned_memory(pinned));
      for (Member& member : bucket.members) {
        const std::int64_t end = member.start + member.parameter.numel();
        member.place = bucket.flat.slice(0, member.start, end).view(member.parameter.sizes());
      }
      size = 0;
    };
    for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) {
      if (!slot->trained) continue;
      if (size == 0) buckets_.emplace_back();
      buckets_.back().members.push_back({slot->value, size});
      size += slot->value.numel();
      if (size * static_cast<std::int64_t>(sizeof(T)) >= bucket_bytes) close();
    }
    close();
  }

  // A gradient comes out of autograd on its own rather than adds up in the bucket, because 0 + (-0) would
  // lose a sign that plain PyTorch keeps.
  void take(Bucket<T>& bucket, Member& member) {
    const torch::NoGradGuard no_grad;
    member.place.copy_(member.parameter.grad());
    if (scale_first_) member.place.mul_(share_);
    if (++bucket.taken == bucket.members.size()) {
      bucket.sum->start();
      bucket.under_way = true;
    }
    for (Bucket<T>& other : buckets_) {
      if (other.under_way) other.sum->advance();
    }
  }

  static void put_back(Member& member) {
    torch::Tensor& gradient = member.parameter.mutable_grad();
    if (gradient.is_cpu() && gradient.scalar_type() == member.place.scalar_type()) {
      gradient = member.place;
    } else {
      gradient.copy_(member.place);
    }
  }

  bool scale_first_;
  double share_;
  bool armed_ = false;
  std::deque<Bucket<T>> buckets_;
};

class NoReducer : public Reducer {
 public:
  void arm() override {}
  void finish() override {}
};

}  // namespace

std::unique_ptr<Reducer> make_bucket_reducer(const std::vector<nn::Slot>& slots,
                                             const mpi::Communicator& replicas, record::Semantics semantics) {
  if (replicas.size() == 1) return std::make_unique<NoReducer>();
  const bool scale_first = semantics == record::Semantics::ddp;
  const auto trained =
      std::find_if(slots.begin(), slots.end(), [](const auto& slot) { return slot.trained; });
  if (trained != slots.end() && trained->value.scalar_type() == torch::kFloat64) {
    return std::make_unique<BucketReducer<double>>(slots, replicas, scale_first);
  }
  return std::make_unique<BucketReducer<float>>(slots, replicas, scale_first);
}

}  // namespace bitrift::train
