#include "train/parallel/strategy.h"

#include <algorithm>
#include <cstring>

#include "train/parallel/pipeline.h"
#include "train/parallel/transfer.h"
#include "train/parallel/whole_model.h"

namespace bitrift::train {
namespace {

std::unique_ptr<Executor> make_executor(nn::Stage& stage, const Layout& layout,
                                        const record::Parallel& parallel, const Precision& precision,
                                        KillPoint& kill_point, ComputeFlips& flips) {
  if (layout.stages() == 1) return make_whole(stage, precision, kill_point, flips);
  return make_pipeline(stage, layout, precision, parallel.schedule, parallel.micro_batches, kill_point,
                       flips);
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
                   const nn::Dataset& data, const Precision& precision, const StrategyOptions& options,
                   KillPoint& kill_point, FaultyLinks& links, ComputeFlips& flips)
    : stage_(stage),
      layout_(layout),
      data_(data),
      micro_batches_(parallel.micro_batches),
      shared_buffers_(parallel.semantics == record::Semantics::ddp),
      executor_(make_executor(stage, layout, parallel, precision, kill_point, flips)),
      reducer_(make_bucket_reducer(stage.slots(), layout, parallel.semantics, kill_point, links, flips)) {
  for (const int replica : layout.replicas) {
    feeds_.push_back(std::make_unique<Feed>(data, replica, layout.replica_count(), parallel.micro_batches,
                                            executor_->needs_batches(), options.ahead));
  }
  std::uint64_t trained = 0;
  for (const nn::Slot& slot : stage_.slots()) {
    if (slot.trained) {
      ++trained;
    } else {
      buffers_.push_back(slot.value);
    }
  }
  if (layout.replicas.size() > 1 && !buffers_.empty()) {
    own_buffers_.resize(layout.replicas.size());
    for (std::size_t i = 0; i < own_buffers_.size(); ++i) save_buffers(i);
  }
  if (!options.exchange_norms) return;
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(layout.world.size()));
  layout.world.allgather_equal(&trained, sizeof trained, counts.data());
  norm_counts_.assign(counts.begin(), counts.end());
}

void Strategy::save_buffers(std::size_t index) {
  const torch::NoGradGuard no_grad;
  if (own_buffers_.empty()) return;
  own_buffers_[index].clear();
  for (const torch::Tensor& buffer : buffers_) own_buffers_[index].push_back(buffer.detach().clone());
}

void Strategy::load_buffers(std::size_t index) {
  const torch::NoGradGuard no_grad;
  if (own_buffers_.empty()) return;
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(own_buffers_[index][i]);
}

void Strategy::for_each_replica(const std::function<void(int replica)>& work) {
  if (own_buffers_.empty()) {
    for (const int replica : layout_.replicas) work(replica);
    return;
  }
  save_buffers(0);  // a load or a broadcast may have changed them
  for (std::size_t i = 0; i < layout_.replicas.size(); ++i) {
    load_buffers(shared_buffers_ ? 0 : i);
    work(layout_.replicas[i]);
  }
  load_buffers(0);
}

void Strategy::drop_gradients() {
  for (const nn::Slot& slot : stage_.slots()) {
    torch::Tensor value = slot.value;
    if (slot.trained) value.mutable_grad() = torch::Tensor();
  }
}

void Strategy::expect(const StepInput& step) {
  for (const auto& feed : feeds_) feed->expect(step);
}

std::vector<Tally> Strategy::gradients(const StepInput& step) {
  std::vector<Tally> tallies;
  // Under ddp every replica begins with the same buffers, and replica 0's are kept.
  if (!own_buffers_.empty()) save_buffers(0);
  const std::size_t count = layout_.replicas.size();
  std::vector<torch::Tensor> first_buffers;
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) drop_gradients();
    if (i > 0) load_buffers(shared_buffers_ ? 0 : i);
    tallies.push_back(
        executor_->run(step, layout_.replicas[i], feeds_[i]->take(step), [this, i] { reducer_->arm(i); }));
    reducer_->taken();
    if (own_buffers_.empty()) continue;
    if (shared_buffers_) {
      if (i > 0) continue;
      for (const torch::Tensor& buffer : buffers_) first_buffers.push_back(buffer.detach().clone());
    } else {
      save_buffers(i);
    }
  }
  reducer_->finish();
  if (!own_buffers_.empty()) {
    if (shared_buffers_) own_buffers_[0] = std::move(first_buffers);
    load_buffers(0);
  }
  if (shared_buffers_) send_buffers();
  return tallies;
}

// Running statistics of replica 0 go to all, as in PyTorch's DistributedDataParallel: there before the next
// forward pass, here after this one, so that replicas are equal after every step. Must come after the
// backward pass, which still uses them.
void Strategy::send_buffers() { broadcast_tensors(buffers_, layout_.peers, layout_.holders[0]); }

// Every rank sends right answers, targets and losses of each replica that it computes (those of last stages
// count), its yes and no as bits of one number, and the norms of its gradients. A double holds all exactly.
Decision Strategy::decide(const std::vector<Tally>& tallies, const Vote& mine) {
  constexpr unsigned bad_bit = 1, leave_bit = 2;
  const auto losses = static_cast<std::size_t>(micro_batches_);
  const std::size_t block = losses + 2, most = static_cast<std::size_t>(layout_.map.most_on_a_rank());
  const std::size_t norms =
      norm_counts_.empty() ? 0 : *std::max_element(norm_counts_.begin(), norm_counts_.end());
  const std::size_t width = most * block + 1 + norms;
  std::vector<double> row(width);
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    row[i * block] = static_cast<double>(tallies[i].asked);
    row[i * block + 1] = static_cast<double>(tallies[i].correct);
    std::copy(tallies[i].losses.begin(), tallies[i].losses.end(),
              row.begin() + static_cast<std::ptrdiff_t>(i * block + 2));
  }
  row[most * block] = (mine.bad_gradient ? bad_bit : 0U) | (mine.leave ? leave_bit : 0U);
  if (norms > 0)
    std::copy(mine.norms.begin(), mine.norms.end(), row.begin() + static_cast<std::ptrdiff_t>(width - norms));
  const auto ranks = static_cast<std::size_t>(layout_.world.size());
  std::vector<double> all(width * ranks);
  layout_.world.allgather_equal(row.data(), width * sizeof(double), all.data());

  Decision decision;
  BatchResult& batch = decision.batch;
  for (int replica = 0; replica < layout_.replica_count(); ++replica) {
    const std::size_t slot = layout_.slot(replica, layout_.stages() - 1);
    const double* at = all.data() + slot / most * width + slot % most * block;
    batch.asked += static_cast<std::int64_t>(at[0]);
    batch.correct += static_cast<std::int64_t>(at[1]);
    for (std::size_t m = 0; m < losses; ++m) batch.loss += at[2 + m];
  }
  batch.loss /= static_cast<double>(losses * static_cast<std::size_t>(layout_.replica_count()));
  unsigned votes = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    votes |= static_cast<unsigned>(all[rank * width + most * block]);
  decision.bad_gradient = (votes & bad_bit) != 0;
  decision.leave = (votes & leave_bit) != 0;
  for (int stage = 0; norms > 0 && stage < layout_.stages(); ++stage) {
    const auto rank = static_cast<std::size_t>(layout_.map.host(layout_.replica(), stage));
    const double* at = all.data() + (rank + 1) * width - norms;
    decision.norms.insert(decision.norms.end(), at, at + norm_counts_[rank]);
  }
  return decision;
}

std::vector<TestResult> Strategy::evaluate() {
  struct Row {
    double loss, capped, asked, correct;
  };
  const auto most = static_cast<std::size_t>(layout_.map.most_on_a_rank());
  std::vector<Row> mine(most), all(most * static_cast<std::size_t>(layout_.world.size()));
  std::size_t next = 0;
  for_each_replica([&](int replica) {
    const Tally tally = executor_->evaluate(replica, data_);
    mine[next++] = {tally.losses.empty() ? 0 : tally.losses[0], tally.capped,
                    static_cast<double>(tally.asked), static_cast<double>(tally.correct)};
  });
  layout_.world.allgather_equal(mine.data(), most * sizeof(Row), all.data());
  std::vector<TestResult> results;
  for (int replica = 0; replica < layout_.replica_count(); ++replica) {
    const Row& row = all[layout_.slot(replica, layout_.stages() - 1)];
    results.push_back({row.loss / row.asked, row.capped / row.asked, row.correct / row.asked,
                       static_cast<std::int64_t>(row.asked)});
  }
  return results;
}

}  // namespace bitrift::train
