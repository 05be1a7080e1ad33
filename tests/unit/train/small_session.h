// A session of an MLP with batch norm that takes steps within microseconds, and what work on it throws.
#pragma once

#include <string>
#include <utility>

#include "core/error.h"
#include "nn/make_layers.h"
#include "spec/training_spec.h"
#include "train/state/session.h"

namespace bitrift::train::small_session {

/// spec: of the optimizer and the seed.
inline Session make_session(const record::TrainingSpec& spec) {
  auto layers = nn::make_layers({.hidden = {8}, .batch_norm = true, .input = {1, 2, 2}, .classes = 2});
  const std::size_t count = layers.size();
  return {nn::Stage(std::move(layers), 0, count, spec.seed), spec};
}

/// Always with the same four samples.
inline void take_step(Session& session) {
  session.drop_gradients();
  const torch::Tensor x = torch::arange(16, torch::kFloat32).view({4, 1, 2, 2});
  torch::cross_entropy_loss(session.stage().forward(x, {.training = true}).y,
                            torch::tensor({0, 1, 1, 0}, torch::kInt64))
      .backward();
  session.optimizer().step(0.1);
  session.progress.step += 1;
}

/// The message of the Error(internal) that work throws; empty: it throws none.
template <typename Work>
std::string fault_in(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.code() == ErrorCode::internal ? error.what() : "";
  }
  return "";
}

}  // namespace bitrift::train::small_session
