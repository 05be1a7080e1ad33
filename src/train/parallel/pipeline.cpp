#include "train/parallel/pipeline.h"

#include <algorithm>
#include <array>
#include <deque>

#include "core/error.h"
#include "train/parallel/transfer.h"
#include "train/step/loss.h"

namespace bitrift::train {
namespace {

// Precedes every activation: the type that autocast gave it, and the losses of the auxiliary heads so far.
struct Header {
  std::int32_t dtype = 0;
  std::int32_t auxiliaries = 0;
  std::array<double, 8> losses = {};
};

// One micro-batch between its forward and its backward pass.
struct InFlight {
  torch::Tensor input, output;
  std::vector<torch::Tensor> roots;  // other starting points of the backward pass: losses of auxiliary heads
};

class Pipeline : public Executor {
 public:
  Pipeline(nn::Stage& stage, const Layout& layout, const Precision& precision,
           record::PipelineSchedule schedule, int micro_batches, KillPoint& kill_point, ComputeFlips& flips)
      : stage_(stage),
        layout_(layout),
        transfer_(layout.world),
        precision_(precision),
        one_forward_one_backward_(schedule == record::PipelineSchedule::one_forward_one_backward),
        micro_batches_(micro_batches),
        kill_point_(kill_point),
        flips_(flips) {}

  Tally run(const StepInput& step, int replica, const std::vector<MicroBatch>& micro,
            const std::function<void()>& before_last_backward) override {
    replica_ = replica;
    tally_ = {};
    in_flight_.clear();
    // With one forward, one backward, a stage is ahead by as many micro-batches as stages follow it.
    const int following = layout_.stages() - 1 - layout_.stage();
    const int ahead =
        one_forward_one_backward_ ? std::min(following, micro_batches_ - 1) : micro_batches_ - 1;
    for (int m = 0; m < micro_batches_ + ahead; ++m) {
      if (m < micro_batches_) forward(step, micro, m);
      const int back = m - ahead;
      if (back + 1 == micro_batches_) before_last_backward();
      if (back >= 0) backward(back);
    }
    transfer_.finish();
    return std::move(tally_);
  }

  Tally evaluate(int replica, const nn::Dataset& data) override {
    const torch::NoGradGuard no_grad;
    replica_ = replica;
    Tally tally;
    if (last()) tally.losses.assign(1, 0);
    const std::int64_t rows = evaluation_batch(data.input_shape());
    for (std::int64_t begin = 0; begin < data.test_size(); begin += rows) {
      const std::int64_t end = std::min(begin + rows, data.test_size());
      kill_point_.reach(record::TrainingPhase::evaluate, begin / rows, evaluation_batches(data));
      nn::Batch batch;
      if (first() || last()) batch = data.test_batch(begin, end);
      Header header;
      const torch::Tensor x = first() ? stage_input(batch.inputs, stage_.placement())
                                      : receive_activation(end - begin, evaluation_tag, header);
      const torch::Tensor y = apply(x, {}).y;
      if (!last()) {
        send_activation(y, evaluation_tag, header);
        continue;
      }
      const torch::Tensor targets = batch.targets.to(stage_.placement().device);
      const LossSums sums = sum_losses(y, targets);
      tally.losses[0] += sums.loss;
      tally.capped += sums.capped;
      count(tally, y, targets);
    }
    transfer_.finish();
    return tally;
  }

  [[nodiscard]] bool needs_batches() const override { return first() || last() || stage_.has_auxiliary(); }

 private:
  static constexpr int evaluation_tag = 0;
  [[nodiscard]] bool first() const { return layout_.stage() == 0; }
  [[nodiscard]] bool last() const { return layout_.stage() == layout_.stages() - 1; }
  [[nodiscard]] int previous() const { return layout_.map.host(replica_, layout_.stage() - 1); }
  [[nodiscard]] int next() const { return layout_.map.host(replica_, layout_.stage() + 1); }
  // Activations and gradients of micro-batch m.
  [[nodiscard]] int forward_tag(int m) const { return m % 4096; }
  [[nodiscard]] int backward_tag(int m) const { return 4096 + m % 4096; }

  nn::StageOutput apply(const torch::Tensor& x, const nn::Pass& pass) {
    const AutocastRegion region(precision_, stage_.placement().device);
    return stage_.forward(x, pass);
  }

  static void count(Tally& tally, const torch::Tensor& logits, const torch::Tensor& targets) {
    const Answers answers = count_answers(logits, targets);
    tally.asked += answers.asked;
    tally.correct += answers.correct;
  }

  void forward(const StepInput& step, const std::vector<MicroBatch>& micro, int m) {
    const MicroBatch& part = micro[static_cast<std::size_t>(m)];
    const auto rows = static_cast<std::int64_t>(part.samples.size());
    InFlight flight;
    Header header;
    kill_point_.reach(record::TrainingPhase::forward, m, micro_batches_);
    if (first()) {
      flight.input = stage_input(part.batch.inputs, stage_.placement());
    } else {
      flight.input = receive_activation(rows, forward_tag(m), header);
      flight.input.requires_grad_(true);
    }
    const nn::StageOutput output = apply(flight.input, {.training = true,
                                                        .seed = step.seed,
                                                        .step = step.step,
                                                        .samples = part.samples,
                                                        .tap = flips_.tap(replica_, m)});
    flight.output = output.y;
    const torch::Tensor targets = last() || !output.auxiliary.empty()
                                      ? part.batch.targets.to(stage_.placement().device)
                                      : torch::Tensor();
    for (const torch::Tensor& logits : output.auxiliary) {
      const torch::Tensor loss = cross_entropy(logits, targets);
      flight.roots.push_back(scaled(share_of(loss * nn::auxiliary_weight, micro_batches_), step));
      header.losses.at(static_cast<std::size_t>(header.auxiliaries++)) = loss.item<double>();
    }
    if (last()) {
      finish_forward(step, targets, header, flight);
    } else {
      send_activation(output.y, forward_tag(m), header);
    }
    in_flight_.push_back(std::move(flight));
  }

  // On the last stage: the loss, added in the order of a serial run, main loss first.
  void finish_forward(const StepInput& step, const torch::Tensor& targets, const Header& header,
                      InFlight& flight) {
    count(tally_, flight.output, targets);
    const torch::Tensor loss = cross_entropy(flight.output, targets);
    torch::Tensor whole = loss.detach();
    for (std::int32_t i = 0; i < header.auxiliaries; ++i) {
      const double auxiliary = header.losses[static_cast<std::size_t>(i)];
      whole = whole + torch::full_like(whole, auxiliary) * nn::auxiliary_weight;
    }
    tally_.losses.push_back(whole.item<double>());
    flight.output = scaled(share_of(loss, micro_batches_), step);
  }

  void backward(int m) {
    kill_point_.reach(record::TrainingPhase::backward, m, micro_batches_);
    const InFlight flight = std::move(in_flight_.front());
    in_flight_.pop_front();
    std::vector<torch::Tensor> roots = {flight.output}, gradients;
    if (last()) {
      gradients.emplace_back();
    } else {
      gradients.push_back(transfer_.receive(flight.output.sizes().vec(), flight.output.scalar_type(),
                                            stage_.placement().device, next(), backward_tag(m)));
    }
    for (const torch::Tensor& root : flight.roots) {
      roots.push_back(root);
      gradients.emplace_back();
    }
    torch::autograd::backward(roots, gradients);
    if (!first()) transfer_.send(flight.input.grad(), previous(), backward_tag(m));
  }

  static torch::Tensor scaled(const torch::Tensor& loss, const StepInput& step) {
    return step.scaled ? loss * step.loss_scale : loss;
  }

  torch::Tensor receive_activation(std::int64_t rows, int tag, Header& header) {
    layout_.world.receive(&header, sizeof header, previous(), tag);
    std::vector<std::int64_t> shape = stage_.input_shape();
    shape.insert(shape.begin(), rows);
    return transfer_.receive(shape, static_cast<torch::ScalarType>(header.dtype), stage_.placement().device,
                             previous(), tag);
  }

  void send_activation(const torch::Tensor& y, int tag, Header header) {
    header.dtype = static_cast<std::int32_t>(y.scalar_type());
    transfer_.send_bytes(&header, sizeof header, next(), tag);
    transfer_.send(y, next(), tag);
  }

  nn::Stage& stage_;
  const Layout& layout_;
  Transfer transfer_;
  Precision precision_;
  bool one_forward_one_backward_;
  int micro_batches_;
  KillPoint& kill_point_;
  ComputeFlips& flips_;
  int replica_ = 0;
  std::deque<InFlight> in_flight_;
  Tally tally_;
};

}  // namespace

std::unique_ptr<Executor> make_pipeline(nn::Stage& stage, const Layout& layout, const Precision& precision,
                                        record::PipelineSchedule schedule, int micro_batches,
                                        KillPoint& kill_point, ComputeFlips& flips) {
  return std::make_unique<Pipeline>(stage, layout, precision, schedule, micro_batches, kill_point, flips);
}

}  // namespace bitrift::train
