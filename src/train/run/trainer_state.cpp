#include "train/run/trainer_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "train/parallel/build.h"
#include "train/step/data_order.h"
#include "train/step/gradient_norm.h"
#include "train/step/schedule.h"

namespace bitrift::train {
namespace {

int batches_ahead(const record::DataSpec& spec, const nn::Dataset& data) {
  return spec.prefetch.value_or(data.costly() ? 2 : 0);
}

}  // namespace

TrainerState::TrainerState(record::TrainingSpec spec_, record::Parallel parallel_,
                           const mpi::Communicator& world, std::shared_ptr<const nn::Dataset> data_,
                           bool fresh)
    : spec(std::move(spec_)),
      parallel(std::move(parallel_)),
      layout(parallel, world),
      data(std::move(data_)),
      precision(spec.precision),
      scaler(spec),
      guards(spec, world.rank(), scaler.dynamic()),
      session(build_stage(spec, *data, parallel, layout,
                          {precision.parameters, choose_device(parallel, world.rank())}, fresh),
              spec),
      strategy(session.stage(), layout, parallel, *data, precision, batches_ahead(spec.data, *data)) {}

std::span<const std::int64_t> TrainerState::next_batch() {
  const std::pair wanted(session.seed, session.progress.epoch);
  if (order_of_ != wanted) {
    order_ = epoch_order(session.seed, session.progress.epoch, data->train_size());
    order_of_ = wanted;
  }
  return std::span<const std::int64_t>(order_).subspan(static_cast<std::size_t>(session.progress.cursor),
                                                       static_cast<std::size_t>(spec.batch_size));
}

// This batch and what is left of the epoch after it: the next epoch's order is computed when it begins.
void TrainerState::expect_batches(std::span<const std::int64_t> batch) {
  Feed& feed = strategy.feed();
  const auto left = static_cast<std::size_t>(order_.data() + order_.size() - batch.data());
  while (feed.wants_more() && (feed.waiting() + 1) * batch.size() <= left) {
    feed.expect({.batch = {batch.data() + feed.waiting() * batch.size(), batch.size()},
                 .seed = session.seed,
                 .epoch = session.progress.epoch});
  }
}

StepResult TrainerState::step(std::span<const std::int64_t> batch) {
  session.drop_gradients();
  Progress& progress = session.progress;
  const StepInput input{.batch = batch,
                        .seed = session.seed,
                        .epoch = progress.epoch,
                        .step = progress.step,
                        .loss_scale = static_cast<double>(static_cast<float>(progress.loss_scale)),
                        .scaled = scaler.active()};
  expect_batches(batch);
  StepResult result;
  result.batch = strategy.gradients(input);
  guards.see_loss(result.batch.loss, progress);
  if (!std::isfinite(result.batch.loss) && !scaler.dynamic()) {
    result.stopped = true;
    guards.see_state(session, progress.step + 1);  // which tensor it comes from
    if (guards.stops()) result.alarm = first_alarm();
    return result;
  }
  if (update()) session.optimizer().step(progress.learning_rate);
  progress.step += 1;
  progress.cursor += spec.batch_size;
  progress.epoch_loss_sum += result.batch.loss;
  progress.epoch_correct += result.batch.correct;
  after_step(spec.schedule, total_steps(), progress);
  if (parallel.resync_every > 0 && progress.step % parallel.resync_every == 0) share_state(false);
  guards.see_state(session, progress.step);
  if (guards.stops()) result.alarm = first_alarm();
  return result;
}

// Of all ranks, by rank. Collective.
std::string TrainerState::first_alarm() const {
  const std::string mine = guards.alarms().empty() ? "" : record::describe(guards.alarms().front());
  for (const std::string& text : layout.world.allgather(mine)) {
    if (!text.empty()) return text;
  }
  return "";
}

// Makes the gradients ready for the optimizer; false when loss scaling found some that are not finite.
bool TrainerState::update() {
  if (scaler.active()) {
    const auto bad = static_cast<char>(!scaler.unscale(session.optimizer().parameters(), session.progress));
    std::vector<char> all(static_cast<std::size_t>(layout.world.size()));
    layout.world.allgather_equal(&bad, 1, all.data());
    const bool any = std::any_of(all.begin(), all.end(), [](char one) { return one != 0; });
    scaler.update(any, session.progress);
    if (any) return false;
  }
  limit_gradients();
  return true;
}

void TrainerState::limit_gradients() {
  if (spec.optimizer.clip_norm == 0 && !guards.wants_gradient_norm()) return;
  const auto& parameters = session.optimizer().parameters();
  const std::vector<double> mine = tensor_norms(parameters);
  std::string bytes(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(double));
  std::string joined;
  for (const std::string& part : layout.pipeline.allgather(bytes)) joined += part;
  std::vector<double> norms(joined.size() / sizeof(double));
  std::memcpy(norms.data(), joined.data(), joined.size());
  const double total = total_norm(norms, precision.parameters);
  guards.see_gradient_norm(total, session.progress.step + 1);
  if (spec.optimizer.clip_norm > 0) scale_gradients(parameters, spec.optimizer.clip_norm, total);
}

void TrainerState::share_state(bool with_optimizer) {
  std::vector<torch::Tensor> tensors;
  // Under horovod buffers are each replica's own.
  const bool buffers = parallel.semantics == record::Semantics::ddp;
  for (const nn::Slot& slot : session.stage().slots()) {
    if (slot.trained || buffers) tensors.push_back(slot.value);
  }
  for (const OptimizerSlot& slot : session.optimizer().state()) {
    if (with_optimizer) tensors.push_back(slot.value);
  }
  broadcast_tensors(tensors, layout.replicas, 0);
}

std::vector<std::string> TrainerState::digests() {
  std::vector<std::string> lines = session.digest_lines(layout.stage() == 0);
  std::string text;
  for (const std::string& line : lines) text += line;
  lines.clear();
  for (const std::string& part : layout.pipeline.allgather(text)) {
    std::istringstream stream(part);
    for (std::string line; std::getline(stream, line);) lines.push_back(line + "\n");
  }
  return layout.replicas.allgather(state_digest(std::move(lines)));
}

}  // namespace bitrift::train
