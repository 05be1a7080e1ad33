#include "train/run/trainer_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <sstream>

#include "mpi/survivors.h"
#include "train/parallel/build.h"
#include "train/state/checkpoint_names.h"
#include "train/step/data_order.h"
#include "train/step/gradient_norm.h"
#include "train/step/schedule.h"

namespace bitrift::train {
namespace {

int batches_ahead(const record::DataSpec& spec, const nn::Dataset& data) {
  return spec.prefetch.value_or(data.costly() ? 2 : 0);
}

}  // namespace

TrainerState::TrainerState(record::TrainingSpec spec_, record::Parallel parallel_, Team team_,
                           record::RecoverySpec recovery_, std::shared_ptr<const nn::Dataset> data_,
                           bool fresh)
    : spec(std::move(spec_)),
      parallel(std::move(parallel_)),
      team(std::move(team_)),
      recovery(std::move(recovery_)),
      map(parallel.replicas(), parallel.stages),
      mesh(parallel.mesh),
      data(std::move(data_)),
      precision(spec.precision),
      scaler(spec),
      guards(spec, 0, scaler.dynamic()) {
  if (team.working()) start_work(fresh);
}

void TrainerState::spread(const ReplicaMap& map_, const std::optional<record::MeshSpec>& mesh_) {
  stop_work();
  map = map_;
  mesh = mesh_;
  start_work(false);
}

void TrainerState::route(const record::MeshSpec& other) {
  strategy().route(other);
  mesh = layout_->mesh = other;
}

std::string TrainerState::meet_failed_links(record::RunResult& result) {
  using record::LinkReport;
  for (const record::FailedLink& link : links.failures.failed()) {
    auto report = std::ranges::find(result.failed_links, link, &LinkReport::link);
    if (report == result.failed_links.end())
      report = result.failed_links.insert(report, LinkReport{.link = link});
    const comm::Topology& now = mesh.value().topology;
    const comm::Link ends = record::ends_of(now, link);
    if (link.kind != record::LinkFailure::dead || !now.linked(ends.first, ends.second)) continue;
    const auto refusal = [&](const char* why) {
      return fmt::format("the link {} died in step {}, and the run cannot continue: {}",
                         record::name_of_link(link), link.step, why);
    };
    if (recovery.kind == record::RecoveryKind::none) return refusal("recovery is off");
    const double began = record::monotonic_seconds();
    try {
      record::MeshSpec without = *mesh;
      without.topology = now.without_link(ends);
      route(without);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::internal) throw;
      return refusal(error.what());
    }
    report->plan_seconds = record::monotonic_seconds() - began;
  }
  return "";
}

void TrainerState::restore_links() {
  const auto first = mesh_with_first_links();
  if (strategy_ && first && first != mesh) route(*first);
}

std::optional<record::MeshSpec> TrainerState::mesh_with_first_links() const {
  if (!mesh) return std::nullopt;
  record::MeshSpec first = *mesh;
  first.topology = parallel.mesh->topology.without(mesh->topology.dead());
  return first;
}

void TrainerState::revoke_work() const noexcept {
  team.revoke();
  if (layout_) mpi::revoke(layout_->peers);
}

void TrainerState::start_work(bool fresh) {
  const int rank = team.active().rank();
  layout_ = std::make_unique<Layout>(map, team.active(), mesh);
  const nn::Placement placement{precision.parameters, choose_device(parallel, rank)};
  if (costs.empty()) costs = layer_costs(spec, *data, parallel, *layout_, placement);
  if (!session_ || cut_ != std::pair(layout_->stage(), layout_->stages()))
    make_session(*layout_, placement, fresh);
  guards.work_as(rank);
  kill_point.work_as(map.seats(rank));
  strategy_ = std::make_unique<Strategy>(session_->stage(), *layout_, parallel, *data, precision,
                                         StrategyOptions{batches_ahead(spec.data, *data), exchanges_norms()},
                                         kill_point, links, flips);
  if (!session_->shard().sharded()) return;
  std::vector<torch::Tensor> parameters;
  for (const Optimizer::Parameter& parameter : session_->optimizer().parameters())
    parameters.push_back(parameter.value);
  exchange_.emplace(parameters, session_->owners(), layout_->peers);
}

void TrainerState::make_session(const Layout& layout, const nn::Placement& placement, bool fresh) {
  OptimizerShard shard;
  if (parallel.shard_optimizer) shard = {layout.peers.rank(), layout.peers.size()};
  session_ =
      std::make_unique<Session>(build_stage(spec, *data, costs, layout, placement, fresh), spec, shard);
  cut_ = {layout.stage(), layout.stages()};
  buffers_.clear();
  buffers_before_.clear();
  for (const nn::Slot& slot : session_->stage().slots()) {
    if (!slot.trained) buffers_.push_back(slot.value);
  }
}

// Only gradients: the changes of the forward pass are part of every state that is moved, and the optimizer
// has changed nothing yet.
void TrainerState::warm_up() {
  if (session_ || parallel.stages > 1 || parallel.device != record::DeviceKind::cpu) return;
  const record::Parallel serial;
  const Layout alone(ReplicaMap(1, 1), mpi::Communicator());
  const nn::Placement placement{precision.parameters, choose_device(serial, 0)};
  costs = layer_costs(spec, *data, serial, alone, placement);
  make_session(alone, placement, true);
  std::vector<std::int64_t> batch(static_cast<std::size_t>(spec.batch_size / parallel.replicas()));
  std::iota(batch.begin(), batch.end(), 0);
  KillPoint none;
  FaultyLinks no_links;
  ComputeFlips no_flips;
  Strategy work(session_->stage(), alone, serial, *data, precision, {}, none, no_links, no_flips);
  (void)work.gradients({.batch = batch, .seed = spec.seed});
  session_->drop_gradients();
}

std::span<const std::int64_t> TrainerState::next_batch() {
  const std::pair wanted(session().seed, session().progress.epoch);
  if (order_of_ != wanted) {
    order_ = epoch_order(session().seed, session().progress.epoch, data->train_size());
    order_of_ = wanted;
  }
  return std::span<const std::int64_t>(order_).subspan(static_cast<std::size_t>(session().progress.cursor),
                                                       static_cast<std::size_t>(spec.batch_size));
}

// This batch and the rest of the epoch: the next epoch's order is computed when it begins.
void TrainerState::expect_batches(std::span<const std::int64_t> batch) {
  Strategy& work = strategy();
  const auto left = static_cast<std::size_t>(order_.data() + order_.size() - batch.data());
  while (work.wants_more() && (work.waiting() + 1) * batch.size() <= left) {
    work.expect({.batch = {batch.data() + work.waiting() * batch.size(), batch.size()},
                 .seed = session().seed,
                 .epoch = session().progress.epoch});
  }
}

// The forward pass changes the buffers of batch norm; everything else changes after the decision.
void TrainerState::begin_step() {
  begun_ = true;
  prepared_ = false;
  if (!team.may_lose()) return;
  const torch::NoGradGuard no_grad;
  buffers_before_.resize(buffers_.size());
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_before_[i].defined()) {
      buffers_before_[i].copy_(buffers_[i]);
    } else {
      buffers_before_[i] = buffers_[i].detach().clone();
    }
  }
}

void TrainerState::undo_step() {
  if (!begun_) return;
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < buffers_before_.size(); ++i) buffers_[i].copy_(buffers_before_[i]);
  begun_ = prepared_ = false;
}

StepResult TrainerState::step(std::span<const std::int64_t> batch, bool leave) {
  begin_step();
  session().drop_gradients();
  const Progress& progress = session().progress;
  const StepInput input{.batch = batch,
                        .seed = session().seed,
                        .epoch = progress.epoch,
                        .step = progress.step,
                        .loss_scale = static_cast<double>(static_cast<float>(progress.loss_scale)),
                        .scaled = scaler.active()};
  expect_batches(batch);
  if (flips.near()) {
    for (const Optimizer::Parameter& one : session().optimizer().parameters())
      flips.parameter(layout().replica(), one.key, one.value);
  }
  guards.compare(session(), progress.step);
  flips.show_outputs_to(guards.outputs());
  const std::vector<Tally> tallies = strategy().gradients(input);
  guards.see_outputs(progress.step + 1);
  const auto& parameters = session().optimizer().parameters();
  const bool bad = scaler.active() && !scaler.unscale(parameters, progress);
  Vote mine{.bad_gradient = bad, .leave = leave};
  if (exchanges_norms()) mine.norms = tensor_norms(parameters);
  prepared_ = true;
  const Decision decision = strategy().decide(tallies, mine);
  // A step that is computed again by fewer chips adds up in another order. So either all take this one, or
  // none: the winner of a race must not affect the bits.
  if (mesh && team.may_lose() && recovery.kind == record::RecoveryKind::shrink) stand_together();
  return apply(decision);
}

void TrainerState::stand_together() {
  asked_together_ = true;
  if (!mpi::all_agree(team.active(), true)) throw mpi::RankFailed("a rank died before all accepted the step");
  asked_together_ = false;
}

StepResult TrainerState::apply(const Decision& decision) {
  begun_ = prepared_ = false;
  settled_ = compared_ = -1;
  last_decision_ = decision;
  Progress& progress = session().progress;
  StepResult result{.batch = decision.batch, .leave = decision.leave};
  guards.see_loss(decision.batch.loss, progress);
  if (!std::isfinite(decision.batch.loss) && !scaler.dynamic()) {
    result.stopped = true;
    guards.see_state(session(), progress.step + 1);  // the tensor that it comes from
    settled_ = progress.step;
    return result;
  }
  if (update(decision)) {
    Optimizer& optimizer = session().optimizer();
    if (flips.near()) {
      for (const Optimizer::Parameter& one : optimizer.parameters())
        flips.before_update(layout().replica(), one.key, one.value);
    }
    guards.before_update(optimizer);
    optimizer.step(progress.learning_rate, &kill_point);
    flips.after_update();
    guards.see_update(optimizer, progress.learning_rate, progress.step + 1);
    if (exchange_) exchange_->run();
  }
  progress.step += 1;
  progress.cursor += spec.batch_size;
  progress.epoch_loss_sum += decision.batch.loss;
  progress.epoch_correct += decision.batch.correct;
  after_step(spec.schedule, total_steps(), progress);
  return result;
}

// Makes the gradients ready for the optimizer; false when loss scaling found some that are not finite.
bool TrainerState::update(const Decision& decision) {
  if (scaler.active()) {
    scaler.update(decision.bad_gradient, session().progress);
    if (decision.bad_gradient) return false;
  }
  if (!exchanges_norms()) return true;
  const double total = total_norm(decision.norms, precision.parameters);
  guards.see_gradient_norm(total, session().progress);
  if (spec.optimizer.clip_norm > 0)
    scale_gradients(session().optimizer().parameters(), spec.optimizer.clip_norm, total);
  return true;
}

StepResult TrainerState::pass_over(const StepResult& undone) {
  went_back();
  Progress& progress = session().progress;
  const std::int64_t steps = progress.cursor / spec.batch_size;  // of the epoch
  if (steps > 0) {
    progress.epoch_loss_sum += progress.epoch_loss_sum / static_cast<double>(steps);
    progress.epoch_correct += progress.epoch_correct / steps;
  }
  progress.step += 1;
  progress.cursor += spec.batch_size;
  after_step(spec.schedule, total_steps(), progress);
  return {.batch = undone.batch, .leave = undone.leave};
}

std::string TrainerState::settle(bool stopped) {
  const std::int64_t step = session().progress.step;
  const std::int64_t made = step + (stopped ? 1 : 0);
  guards.see_replicas(session().optimizer(), layout().peers, made, compared_ == made);
  compared_ = made;
  if (!stopped && parallel.resync_every > 0 && step % parallel.resync_every == 0) share_state(false);
  if (settled_ != step) guards.see_state(session(), step);
  if (settled_ != step && !stopped) guards.remember(session(), step);
  settled_ = step;
  if (!guards.stops() && !guards.go_back()) return "";
  const bool raised = guards.stops() && !guards.alarms().empty();
  const std::string mine = raised ? record::describe(guards.alarms().front()) : guards.take_new();
  for (const std::string& text : layout().world.allgather(mine)) {
    if (!text.empty()) return text;
  }
  return "";
}

void TrainerState::forget(const std::vector<record::Structure>& structures) {
  using record::Structure;
  const torch::NoGradGuard no_grad;
  Progress& progress = session().progress;
  Session begun(build_stage(spec, *data, costs, layout(), session().stage().placement(), true), spec);
  for (const Structure structure : structures) {
    if (structure == Structure::optimizer) session().optimizer().clear();
    if (structure == Structure::rng) session().seed = begun.seed;
    if (structure == Structure::loss_scale) {
      progress.loss_scale = begun.progress.loss_scale;
      progress.growth_tracker = begun.progress.growth_tracker;
    }
    if (structure == Structure::schedule) {
      progress.learning_rate = begun.progress.learning_rate;
      progress.base_learning_rate = begun.progress.base_learning_rate;
      progress.plateau_best = begun.progress.plateau_best;
      progress.plateau_bad = begun.progress.plateau_bad;
      progress.plateau_cooldown = begun.progress.plateau_cooldown;
    }
    if (structure == Structure::cursor) {
      progress.epoch = progress.step = progress.cursor = progress.epoch_correct = 0;
      progress.epoch_loss_sum = 0;
    }
    if (structure != Structure::parameters && structure != Structure::buffers) continue;
    const std::vector<nn::Slot> slots = session().stage().slots(), fresh = begun.stage().slots();
    for (std::size_t i = 0; i < slots.size(); ++i) {
      torch::Tensor value = slots[i].value;
      if (slots[i].trained == (structure == Structure::parameters)) value.copy_(fresh[i].value);
    }
  }
}

void TrainerState::share_state(bool with_optimizer) {
  std::vector<torch::Tensor> tensors;
  // Under horovod buffers are each replica's own.
  const bool buffers = parallel.semantics == record::Semantics::ddp;
  for (const nn::Slot& slot : session().stage().slots()) {
    if (slot.trained || buffers) tensors.push_back(slot.value);
  }
  const bool copied = with_optimizer && !session().shard().sharded();
  for (const OptimizerSlot& slot : session().optimizer().state()) {
    if (copied) tensors.push_back(slot.value);
  }
  broadcast_tensors(tensors, layout().peers, layout().holders[0]);
}

// The lines of all stages, for each replica; if a rank holds the whole state, its digest is enough. A sharded
// state belongs to each replica.
std::vector<std::string> TrainerState::digests() {
  const bool sharded = session().shard().sharded();
  const bool whole = layout().stages() == 1 && !sharded;
  record::Json mine = record::Json::array();
  strategy().for_each_replica([&](int /*replica*/) {
    std::vector<std::string> lines = session().digest_lines(layout().stage() == 0);
    std::string text;
    for (const std::string& line : lines) text += line;
    mine.push_back(whole ? state_digest(std::move(lines)) : text);
  });
  std::vector<record::Json> all;
  for (const std::string& text : layout().world.allgather(mine.dump()))
    all.push_back(record::Json::parse(text));
  const auto said = [&](int replica, int stage) {
    const std::size_t slot = layout().slot(replica, stage);
    const auto most = static_cast<std::size_t>(layout().map.most_on_a_rank());
    return all[slot / most][slot % most].get<std::string>();
  };
  std::vector<std::string> digests;
  for (int replica = 0; replica < layout().replica_count(); ++replica) {
    if (whole) {
      digests.push_back(said(replica, 0));
      continue;
    }
    std::vector<std::string> lines;
    const auto take = [&](int from, int stage, bool shards_only) {
      std::istringstream stream(said(from, stage));
      for (std::string line; std::getline(stream, line);) {
        if (!shards_only || line.starts_with(optimizer_prefix)) lines.push_back(line + "\n");
      }
    };
    for (int stage = 0; stage < layout().stages(); ++stage) {
      for (int other = 0; other < layout().replica_count(); ++other) {
        if (other == replica || sharded) take(other, stage, other != replica);
      }
    }
    digests.push_back(state_digest(std::move(lines)));
  }
  return digests;
}

}  // namespace bitrift::train
