#include "train/parallel/whole_model.h"

#include <algorithm>

#include "train/step/loss.h"

namespace bitrift::train {
namespace {

class Whole : public Executor {
 public:
  Whole(nn::Stage& stage, const Precision& precision, KillPoint& kill_point, ComputeFlips& flips)
      : stage_(stage), precision_(precision), kill_point_(kill_point), flips_(flips) {}

  Tally run(const StepInput& step, int replica, const std::vector<MicroBatch>& micro,
            const std::function<void()>& before_last_backward) override {
    Tally tally;
    const auto count = static_cast<int>(micro.size());
    for (int m = 0; m < count; ++m) {
      const MicroBatch& part = micro[static_cast<std::size_t>(m)];
      const torch::Tensor targets = part.batch.targets.to(device());
      kill_point_.reach(record::TrainingPhase::forward, m, count);
      const nn::StageOutput output = forward(part.batch.inputs, {.training = true,
                                                                 .seed = step.seed,
                                                                 .step = step.step,
                                                                 .samples = part.samples,
                                                                 .tap = flips_.tap(replica, m)});
      torch::Tensor loss = cross_entropy(output.y, targets);
      for (const torch::Tensor& logits : output.auxiliary)
        loss = loss + cross_entropy(logits, targets) * nn::auxiliary_weight;
      if (m + 1 == count) before_last_backward();
      torch::Tensor root = share_of(loss, count);
      if (step.scaled) root = root * step.loss_scale;
      kill_point_.reach(record::TrainingPhase::backward, m, count);
      root.backward();
      tally.losses.push_back(loss.item<double>());
      const Answers answers = count_answers(output.y, targets);
      tally.asked += answers.asked;
      tally.correct += answers.correct;
    }
    return tally;
  }

  Tally evaluate(int /*replica*/, const nn::Dataset& data) override {
    const torch::NoGradGuard no_grad;
    Tally tally;
    tally.losses.assign(1, 0);
    const std::int64_t rows = evaluation_batch(stage_.input_shape());
    for (std::int64_t first = 0; first < data.test_size(); first += rows) {
      kill_point_.reach(record::TrainingPhase::evaluate, first / rows, evaluation_batches(data));
      const nn::Batch batch = data.test_batch(first, std::min(first + rows, data.test_size()));
      const torch::Tensor targets = batch.targets.to(device());
      const torch::Tensor logits = forward(batch.inputs, {}).y;
      const LossSums sums = sum_losses(logits, targets);
      tally.losses[0] += sums.loss;
      tally.capped += sums.capped;
      const Answers answers = count_answers(logits, targets);
      tally.asked += answers.asked;
      tally.correct += answers.correct;
    }
    return tally;
  }

  [[nodiscard]] bool needs_batches() const override { return true; }

 private:
  [[nodiscard]] torch::Device device() const { return stage_.placement().device; }

  nn::StageOutput forward(const torch::Tensor& inputs, const nn::Pass& pass) {
    const AutocastRegion region(precision_, device());
    return stage_.forward(stage_input(inputs, stage_.placement()), pass);
  }

  nn::Stage& stage_;
  Precision precision_;
  KillPoint& kill_point_;
  ComputeFlips& flips_;
};

}  // namespace

std::unique_ptr<Executor> make_whole(nn::Stage& stage, const Precision& precision, KillPoint& kill_point,
                                     ComputeFlips& flips) {
  return std::make_unique<Whole>(stage, precision, kill_point, flips);
}

}  // namespace bitrift::train
