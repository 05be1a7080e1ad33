#include <algorithm>
#include <vector>

#include "train/batch_work.h"
#include "train/strategy.h"

namespace bitrift::train {
namespace {

class Replicated : public Strategy {
 public:
  Replicated(nn::Stage& stage, mpi::Communicator communicator, std::unique_ptr<Reducer> reducer,
             int micro_batches)
      : stage_(stage),
        communicator_(std::move(communicator)),
        reducer_(std::move(reducer)),
        micro_batches_(micro_batches) {}

  BatchResult gradients(const nn::Split& train, std::span<const std::int64_t> batch) override {
    const auto rows = part(batch, communicator_.rank(), communicator_.size());
    std::vector<double> report(1);
    for (int m = 0; m < micro_batches_; ++m) {
      const auto micro = part(rows, m, micro_batches_);
      const torch::Tensor labels = take_labels(train, micro);
      const torch::Tensor logits = stage_.forward(take_images(train, micro), {.training = true}).y;
      const torch::Tensor loss = torch::cross_entropy_loss(logits, labels);
      share_of(loss, micro_batches_).backward();
      report.push_back(static_cast<double>(loss.item<float>()));
      report[0] += static_cast<double>(count_correct(logits, labels));
    }
    if (communicator_.size() > 1) {
      average_gradients();
      send_buffers();
    }
    return combine(report);
  }

  TestResult evaluate(const nn::Split& test) override {
    const torch::NoGradGuard no_grad;
    TestResult result;
    std::int64_t correct = 0;
    for (std::int64_t first = 0; first < test.size(); first += evaluation_batch) {
      const std::int64_t last = std::min(first + evaluation_batch, test.size());
      const torch::Tensor labels = test.labels.slice(0, first, last);
      const torch::Tensor logits = stage_.forward(nn::to_input(test.images.slice(0, first, last)), {}).y;
      result.loss += static_cast<double>(
          torch::cross_entropy_loss(logits, labels, {}, torch::Reduction::Sum).item<float>());
      correct += count_correct(logits, labels);
    }
    result.loss /= static_cast<double>(test.size());
    result.accuracy = static_cast<double>(correct) / static_cast<double>(test.size());
    return result;
  }

 private:
  // All gradients in one message. They come out of autograd on their own rather than accumulate into the flat
  // tensor, because 0 + (-0) would lose a sign that plain PyTorch keeps.
  void average_gradients() {
    std::vector<torch::Tensor> pieces;
    for (const nn::Slot& slot : stage_.slots()) {
      if (slot.trained) pieces.push_back(slot.value.grad().reshape(-1));
    }
    const torch::Tensor flat = torch::cat(pieces);
    reducer_->mean({flat.data_ptr<float>(), static_cast<std::size_t>(flat.numel())});
    std::int64_t start = 0;
    for (const nn::Slot& slot : stage_.slots()) {
      if (!slot.trained) continue;
      const std::int64_t count = slot.value.numel();
      slot.value.mutable_grad() = flat.slice(0, start, start + count).view(slot.shape);
      start += count;
    }
  }

  // Running statistics of rank 0 go to all, as in PyTorch's DistributedDataParallel; there before the next
  // forward, here after this one, so that replicas are alike after every step. Must come after backward,
  // which still looks at them.
  void send_buffers() {
    for (const nn::Slot& slot : stage_.slots()) {
      if (!slot.trained) communicator_.broadcast(slot.value.data_ptr(), slot.value.nbytes(), 0);
    }
  }

  // mine: right answers, then the loss of each micro-batch. A double holds both exactly.
  BatchResult combine(const std::vector<double>& mine) {
    const auto ranks = static_cast<std::size_t>(communicator_.size());
    std::vector<double> all(mine.size() * ranks);
    communicator_.allgather_equal(mine.data(), mine.size() * sizeof(double), all.data());
    BatchResult result;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i % mine.size() == 0) {
        result.correct += static_cast<std::int64_t>(all[i]);
      } else {
        result.loss += all[i];
      }
    }
    result.loss /= static_cast<double>(ranks * (mine.size() - 1));
    return result;
  }

  nn::Stage& stage_;
  mpi::Communicator communicator_;
  std::unique_ptr<Reducer> reducer_;
  int micro_batches_;
};

}  // namespace

std::unique_ptr<Strategy> make_replicated(nn::Stage& stage, const mpi::Communicator& communicator,
                                          std::unique_ptr<Reducer> reducer, int micro_batches) {
  return std::make_unique<Replicated>(stage, communicator, std::move(reducer), micro_batches);
}

}  // namespace bitrift::train
