#include "train/parallel/strategy.h"

#include <cstring>

#include "train/parallel/pipeline.h"
#include "train/parallel/transfer.h"
#include "train/parallel/whole_model.h"

namespace bitrift::train {
namespace {

std::unique_ptr<Executor> make_executor(nn::Stage& stage, const Layout& layout,
                                        const record::Parallel& parallel, const Precision& precision) {
  if (layout.stages() == 1) return make_whole(stage, precision);
  return make_pipeline(stage, layout.pipeline, precision, parallel.schedule, parallel.micro_batches);
}

void broadcast_group(const std::vector<torch::Tensor>& tensors, const mpi::Communicator& communicator,
                     int root) {
  std::string bytes;
  std::vector<torch::Tensor> copies;
  for (const torch::Tensor& tensor : tensors) {
    copies.push_back(host_copy(tensor));
    bytes.append(static_cast<const char*>(copies.back().const_data_ptr()), copies.back().nbytes());
  }
  communicator.broadcast(bytes.data(), bytes.size(), root);
  if (communicator.rank() == root) return;
  const char* from = bytes.data();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::memcpy(copies[i].data_ptr(), from, copies[i].nbytes());
    from += copies[i].nbytes();
    torch::Tensor target = tensors[i];
    if (copies[i].data_ptr() != target.data_ptr()) target.copy_(copies[i]);
  }
}

}  // namespace

void broadcast_tensors(const std::vector<torch::Tensor>& tensors, const mpi::Communicator& communicator,
                       int root) {
  if (communicator.size() == 1) return;
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> group;
  std::size_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) {
    group.push_back(tensor);
    bytes += tensor.nbytes();
    if (bytes < std::size_t{64} << 20U) continue;
    broadcast_group(group, communicator, root);
    group.clear();
    bytes = 0;
  }
  if (!group.empty()) broadcast_group(group, communicator, root);
}

Strategy::Strategy(nn::Stage& stage, const Layout& layout, const record::Parallel& parallel,
                   const nn::Dataset& data, const Precision& precision, int ahead)
    : stage_(stage),
      layout_(layout),
      data_(data),
      micro_batches_(parallel.micro_batches),
      shared_buffers_(parallel.semantics == record::Semantics::ddp),
      executor_(make_executor(stage, layout, parallel, precision)),
      reducer_(make_bucket_reducer(stage.slots(), layout.replicas, parallel.semantics)),
      feed_(data, layout.replica(), layout.replica_count(), parallel.micro_batches,
            executor_->needs_batches(), ahead) {}

BatchResult Strategy::gradients(const StepInput& step) {
  const Tally tally = executor_->run(step, feed_.take(step), [this] { reducer_->arm(); });
  reducer_->finish();
  if (shared_buffers_) send_buffers();
  return combine(tally);
}

// Running statistics of replica 0 go to all, as in PyTorch's DistributedDataParallel; there before the next
// forward, here after this one, so that replicas are alike after every step. Must come after backward, which
// still looks at them.
void Strategy::send_buffers() {
  std::vector<torch::Tensor> buffers;
  for (const nn::Slot& slot : stage_.slots()) {
    if (!slot.trained) buffers.push_back(slot.value);
  }
  broadcast_tensors(buffers, layout_.replicas, 0);
}

// Every rank sends right answers, targets and losses; those of last stages count. A double holds all exactly.
BatchResult Strategy::combine(const Tally& tally) const {
  const std::size_t losses = static_cast<std::size_t>(micro_batches_), width = losses + 2;
  std::vector<double> mine(width);
  mine[0] = static_cast<double>(tally.asked);
  mine[1] = static_cast<double>(tally.correct);
  std::copy(tally.losses.begin(), tally.losses.end(), mine.begin() + 2);
  const auto ranks = static_cast<std::size_t>(layout_.world.size());
  const auto stages = static_cast<std::size_t>(layout_.stages());
  std::vector<double> all(width * ranks);
  layout_.world.allgather_equal(mine.data(), width * sizeof(double), all.data());
  BatchResult result;
  for (std::size_t rank = stages - 1; rank < ranks; rank += stages) {
    const double* row = all.data() + rank * width;
    result.asked += static_cast<std::int64_t>(row[0]);
    result.correct += static_cast<std::int64_t>(row[1]);
    for (std::size_t m = 0; m < losses; ++m) result.loss += row[2 + m];
  }
  result.loss /= static_cast<double>(losses * ranks / stages);
  return result;
}

std::vector<TestResult> Strategy::evaluate() {
  const Tally tally = executor_->evaluate(data_);
  struct Row {
    double loss, capped, asked, correct;
  };
  const Row mine{tally.losses.empty() ? 0 : tally.losses[0], tally.capped, static_cast<double>(tally.asked),
                 static_cast<double>(tally.correct)};
  const auto ranks = static_cast<std::size_t>(layout_.world.size());
  const auto stages = static_cast<std::size_t>(layout_.stages());
  std::vector<Row> all(ranks);
  layout_.world.allgather_equal(&mine, sizeof mine, all.data());
  std::vector<TestResult> results;
  for (std::size_t rank = stages - 1; rank < ranks; rank += stages) {
    const Row& row = all[rank];
    results.push_back({row.loss / row.asked, row.capped / row.asked, row.correct / row.asked,
                       static_cast<std::int64_t>(row.asked)});
  }
  return results;
}

}  // namespace bitrift::train
