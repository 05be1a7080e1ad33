#include <algorithm>
#include <vector>

#include "train/batch_work.h"
#include "train/strategy.h"

namespace bitrift::train {
namespace {

class Pipeline : public Strategy {
 public:
  Pipeline(nn::Stage& stage, mpi::Communicator communicator, int micro_batches)
      : stage_(stage), communicator_(std::move(communicator)), micro_batches_(micro_batches) {}

  BatchResult gradients(const nn::Split& train, std::span<const std::int64_t> batch) override {
    Tally tally;
    std::vector<torch::Tensor> inputs, outputs;
    for (int m = 0; m < micro_batches_; ++m) {
      const auto rows = part(batch, m, micro_batches_);
      torch::Tensor x;
      if (first()) {
        x = take_images(train, rows);
      } else {
        x = receive(stage_.input_shape(), static_cast<std::int64_t>(rows.size()), rank() - 1, m);
        x.requires_grad_(true);
      }
      torch::Tensor y = stage_.forward(x, {.training = true}).y;
      if (last()) {
        const torch::Tensor labels = take_labels(train, rows);
        tally.correct += count_correct(y, labels);
        y = torch::cross_entropy_loss(y, labels);
        tally.loss += static_cast<double>(y.item<float>());
        y = share_of(y, micro_batches_);
      } else {
        send(y.detach(), rank() + 1, m);
      }
      inputs.push_back(x);
      outputs.push_back(y);
    }
    backward(inputs, outputs);
    finish_sends();
    return share(tally, micro_batches_);
  }

  TestResult evaluate(const nn::Split& test) override {
    const torch::NoGradGuard no_grad;
    Tally tally;
    for (std::int64_t start = 0; start < test.size(); start += evaluation_batch) {
      const std::int64_t end = std::min(start + evaluation_batch, test.size());
      const torch::Tensor x = first()
                                  ? nn::to_input(test.images.slice(0, start, end))
                                  : receive(stage_.input_shape(), end - start, rank() - 1, evaluation_tag);
      const torch::Tensor y = stage_.forward(x, {}).y;
      if (!last()) {
        send(y, rank() + 1, evaluation_tag);
        continue;
      }
      const torch::Tensor labels = test.labels.slice(0, start, end);
      tally.loss +=
          static_cast<double>(torch::cross_entropy_loss(y, labels, {}, torch::Reduction::Sum).item<float>());
      tally.correct += count_correct(y, labels);
    }
    finish_sends();
    const BatchResult all = share(tally, test.size());
    return {all.loss, static_cast<double>(all.correct) / static_cast<double>(test.size())};
  }

 private:
  struct Tally {
    double loss = 0;
    std::int64_t correct = 0;
  };
  static constexpr int evaluation_tag = 0;

  [[nodiscard]] int rank() const { return communicator_.rank(); }
  [[nodiscard]] bool first() const { return rank() == 0; }
  [[nodiscard]] bool last() const { return rank() == communicator_.size() - 1; }

  void backward(const std::vector<torch::Tensor>& inputs, const std::vector<torch::Tensor>& outputs) {
    for (int m = 0; m < micro_batches_; ++m) {
      const auto i = static_cast<std::size_t>(m);
      if (last()) {
        outputs[i].backward();
      } else {
        outputs[i].backward(
            receive(stage_.output_shape(), outputs[i].size(0), rank() + 1, micro_batches_ + m));
      }
      if (!first()) send(inputs[i].grad(), rank() - 1, micro_batches_ + m);
    }
  }

  torch::Tensor receive(std::vector<std::int64_t> shape, std::int64_t rows, int from, int tag) {
    shape.insert(shape.begin(), rows);
    torch::Tensor tensor = torch::empty(shape);
    communicator_.receive(tensor.data_ptr(), tensor.nbytes(), from, tag);
    return tensor;
  }

  // Never blocks: a blocking send of a large message waits for a peer that may itself be sending.
  void send(const torch::Tensor& tensor, int to, int tag) {
    sent_.push_back(tensor.contiguous());
    requests_.push_back(
        communicator_.start_send(sent_.back().const_data_ptr(), sent_.back().nbytes(), to, tag));
  }

  void finish_sends() {
    for (mpi::Request& request : requests_) request.wait();
    requests_.clear();
    sent_.clear();
  }

  // From the last stage to all.
  BatchResult share(Tally tally, std::int64_t parts) {
    communicator_.broadcast(&tally, sizeof tally, communicator_.size() - 1);
    return {tally.loss / static_cast<double>(parts), tally.correct};
  }

  nn::Stage& stage_;
  mpi::Communicator communicator_;
  int micro_batches_;
  std::vector<torch::Tensor> sent_;
  std::vector<mpi::Request> requests_;
};

}  // namespace

std::unique_ptr<Strategy> make_pipeline(nn::Stage& stage, const mpi::Communicator& communicator,
                                        int micro_batches) {
  return std::make_unique<Pipeline>(stage, communicator, micro_batches);
}

}  // namespace bitrift::train
