#include "train/step/loss.h"

#include <cmath>

namespace bitrift::train {
namespace {

torch::Tensor flat_logits(const torch::Tensor& logits) {
  const torch::Tensor flat = logits.dim() == 2 ? logits : logits.flatten(0, -2);
  const bool narrow = flat.scalar_type() == torch::kBFloat16 || flat.scalar_type() == torch::kFloat16;
  return narrow ? flat.to(torch::kFloat32) : flat;
}

template <typename Value>
Answers count(const torch::Tensor& logits, const torch::Tensor& targets) {
  const std::int64_t classes = logits.size(1);
  const auto* values = logits.const_data_ptr<Value>();
  const auto* wanted = targets.const_data_ptr<std::int64_t>();
  Answers answers;
  for (std::int64_t row = 0; row < logits.size(0); ++row, values += classes) {
    if (wanted[row] == not_asked) continue;
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < classes; ++c) {
      if (values[c] > values[best]) best = c;
    }
    answers.asked += 1;
    answers.correct += best == wanted[row] ? 1 : 0;
  }
  return answers;
}

}  // namespace

torch::Tensor cross_entropy(const torch::Tensor& logits, const torch::Tensor& targets) {
  return torch::cross_entropy_loss(flat_logits(logits), targets.flatten(), {}, torch::Reduction::Mean,
                                   not_asked);
}

// cross_entropy_loss() consists of these two operators; both sums share the first, which costs most.
LossSums sum_losses(const torch::Tensor& logits, const torch::Tensor& targets) {
  const torch::Tensor rows = flat_logits(logits);
  const torch::Tensor wanted = targets.flatten();
  const torch::Tensor log_probabilities = torch::log_softmax(rows, 1);
  const auto loss = [&](torch::Reduction::Reduction reduction) {
    return torch::nll_loss(log_probabilities, wanted, {}, reduction, not_asked);
  };
  const double cap = std::log(static_cast<double>(rows.size(1)));
  return {loss(torch::Reduction::Sum).item<double>(),
          loss(torch::Reduction::None).to(torch::kFloat64).clamp_max(cap).sum().item<double>()};
}

torch::Tensor share_of(const torch::Tensor& loss, int count) { return count == 1 ? loss : loss / count; }

Answers count_answers(const torch::Tensor& logits, const torch::Tensor& targets) {
  const torch::Tensor rows = flat_logits(logits.detach()).cpu().contiguous();
  const torch::Tensor wanted = targets.flatten().cpu();
  return rows.scalar_type() == torch::kFloat64 ? count<double>(rows, wanted) : count<float>(rows, wanted);
}

}  // namespace bitrift::train
