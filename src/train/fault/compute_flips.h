// Numbers that are struck while a run computes them. Inside train/ only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dataset/torch.h"
#include "mpi/communicator.h"
#include "nn/layer/pass.h"
#include "record/fault/compute_fault.h"
#include "record/run.h"

namespace bitrift::train {

/// The faults while computing of a run, and what they did to tensors of this rank. Numbers are struck in
/// copies that only those see who use them next: what a layer keeps of its own output for the backward pass
/// stays right.
class ComputeFlips {
 public:
  /// The faults of this run, of all ranks. The effects of earlier ones are forgotten.
  void arm(std::vector<record::ComputeFault> faults);
  /// This tap sees the outputs of layers in training as the layers after them do; nullptr: none. Not owned.
  void show_outputs_to(nn::OutputTap* watcher) noexcept { watcher_ = watcher; }
  /// The current step of this run, 1-based.
  void at_step(std::int64_t step);

  /// Before the first forward pass of a step: a parameter of this replica is struck in place.
  void parameter(int replica, const std::string& key, const torch::Tensor& value) {
    if (near_) strike_where(record::ComputeSite::parameter, replica, key, value);
  }
  /// For the forward pass of a micro-batch: strikes its outputs, and in the backward pass the gradients of
  /// these. The watcher if none is to be struck in this step. Valid until the next call.
  [[nodiscard]] nn::OutputTap* tap(int replica, std::int64_t micro_batch);
  /// The gradient of a parameter is complete on this replica; it is struck in place.
  void weight_gradient(int replica, const std::string& key, const torch::Tensor& gradient) {
    if (near_) strike_where(record::ComputeSite::weight_gradient, replica, key, gradient);
  }
  /// Before and after the optimizer's step: what it added to a parameter, rounded to the parameter's type, is
  /// struck, and the parameter becomes its old value plus that.
  void before_update(int replica, const std::string& key, const torch::Tensor& parameter) {
    if (near_) keep_before_update(replica, key, parameter);
  }
  void after_update() {
    if (!updates_.empty()) strike_updates();
  }
  [[nodiscard]] bool near() const noexcept { return near_; }

  /// Whether some are of a step after the first `steps`.
  [[nodiscard]] bool due_after(std::int64_t steps) const;
  /// Adds what was altered on all ranks to the result, in the order of arm(). Collective; sends nothing if
  /// nothing is armed.
  void gather(const mpi::Communicator& ranks, record::RunResult& result) const;
  /// The faults that a gathered result does not mention: the run never reached them.
  [[nodiscard]] std::vector<record::ComputeFault> missing(const record::RunResult& result) const;

 private:
  class Tap;
  friend class Tap;
  struct Update {
    std::vector<std::size_t> faults;  // their indices
    torch::Tensor parameter, before;
  };
  [[nodiscard]] std::vector<std::size_t> here(record::ComputeSite site, int replica,
                                              std::int64_t micro_batch) const;
  [[nodiscard]] bool spent(const record::ComputeFault& fault) const;
  /// Those of them that name this tensor.
  [[nodiscard]] std::vector<std::size_t> naming(const std::vector<std::size_t>& faults,
                                                const std::string& tensor) const;
  void strike(std::size_t fault, const torch::Tensor& values);
  void strike_where(record::ComputeSite site, int replica, const std::string& key,
                    const torch::Tensor& values);
  void keep_before_update(int replica, const std::string& key, const torch::Tensor& parameter);
  void strike_updates();
  void note(std::size_t fault, record::AlteredValue altered);

  std::vector<record::ComputeFault> faults_;
  std::vector<record::AlteredValue> altered_;
  std::vector<Update> updates_;
  std::shared_ptr<nn::OutputTap> tap_;
  nn::OutputTap* watcher_ = nullptr;
  std::int64_t step_ = 0;
  bool near_ = false;  // some fault strikes in this step
};

}  // namespace bitrift::train
