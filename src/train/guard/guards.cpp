#include "train/guard/guards.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>

#include "core/digest.h"

namespace bitrift::train {
namespace {

using record::Guard;

constexpr std::size_t most_alarms = 100;
constexpr std::int64_t first_judged = 8;  // earlier values only contribute to the mean
constexpr std::int64_t mean_over = 32;
// Rounding of the moments, above all in 16 bits, may pass the bound of exact arithmetic by a little.
constexpr double room = 1.1;

// How much rounding a parameter of this type may move it by, as a share of its size.
double rounding_of(const torch::Tensor& value) {
  switch (value.scalar_type()) {
    case torch::kBFloat16:
      return 0x1p-7;
    case torch::kFloat16:
      return 0x1p-10;
    case torch::kFloat64:
      return 0x1p-52;
    default:
      return 0x1p-23;
  }
}

}  // namespace

double largest_update(const record::OptimizerSpec& optimizer, std::int64_t t) {
  const auto steps = static_cast<double>(t);
  // v knows only the last gradient, and m knows others.
  if (optimizer.beta2 == 0)
    return t == 1 || optimizer.beta1 == 0 ? 1 : std::numeric_limits<double>::infinity();
  const double r = optimizer.beta1 * optimizer.beta1 / optimizer.beta2;
  // 1 + r + ... + r^(t-1)
  const double sum = r == 1 ? steps : (1 - std::pow(r, steps)) / (1 - r);
  return (1 - optimizer.beta1) / (1 - std::pow(optimizer.beta1, steps)) *
         std::sqrt((1 - std::pow(optimizer.beta2, steps)) / (1 - optimizer.beta2) * sum);
}

Guards::Guards(const record::TrainingSpec& spec, int rank, bool overflow_is_usual)
    : spec_(spec.guards),
      optimizer_(spec.optimizer),
      rank_(rank),
      overflow_is_usual_(overflow_is_usual),
      any_(spec_.any()),
      batch_size_(spec.batch_size),
      outputs_(spec_.activation_range, spec_.on_alarm == record::OnAlarm::clip) {}

void Guards::see_recent(Guard guard, double factor, double value, RecentMean& recent, std::int64_t step,
                        const std::string& tensor, bool mine) {
  if (factor == 0) return;
  const double limit = factor * recent.mean;
  if (!std::isfinite(value)) {
    if (mine) raise(guard, step, tensor, value, limit);
    return;
  }
  if (recent.count >= first_judged && value > limit && mine) raise(guard, step, tensor, value, limit);
  recent.count += 1;
  const std::int64_t weight = std::min(recent.count, mean_over);
  recent.mean += (value - recent.mean) / static_cast<double>(weight);
}

void Guards::see_loss(double loss, Progress& progress) {
  const std::int64_t step = progress.step + 1;
  if (!std::isfinite(loss)) {
    if (spec_.nonfinite && rank_ == 0 && !overflow_is_usual_) raise(Guard::nonfinite, step, "", loss, 0);
    return;
  }
  see_recent(Guard::loss_spike, spec_.loss_spike, loss, progress.guard_losses, step, "", rank_ == 0);
}

void Guards::see_gradient_norm(double norm, Progress& progress) {
  const std::int64_t step = progress.step + 1;
  if (!std::isfinite(norm) && overflow_is_usual_) return;
  if (spec_.gradient_norm > 0 && rank_ == 0 && !(norm <= spec_.gradient_norm))
    raise(Guard::gradient_norm, step, "", norm, spec_.gradient_norm);
  see_recent(Guard::gradient_jump, spec_.gradient_jump, norm, progress.guard_norms, step, "", rank_ == 0);
}

void Guards::see_outputs(std::int64_t step) {
  for (const OutputRanges::Finding& found : outputs_.end_step()) {
    raise(Guard::activation_range, step, found.layer, found.value, found.limit);
    if (spec_.on_alarm == record::OnAlarm::clip) note_act(step);
  }
}

void Guards::note_act(std::int64_t step) {
  if (acted_.empty() || acted_.back() != step) acted_.push_back(step);
}

void Guards::before_update(const Optimizer& optimizer) {
  if (!sees_updates()) return;
  const torch::NoGradGuard no_grad;
  const auto& parameters = optimizer.parameters();
  before_.resize(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i)
    before_[i] = optimizer.holds(i) ? parameters[i].value.detach().clone() : torch::Tensor();
}

void Guards::see_update(const Optimizer& optimizer, double learning_rate, std::int64_t step) {
  if (!sees_updates()) return;
  const torch::NoGradGuard no_grad;
  const double limit = room * learning_rate * largest_update(optimizer_, step);
  const double decay =
      optimizer_.name == record::OptimizerName::adamw ? learning_rate * optimizer_.weight_decay : 0;
  for (std::size_t i = 0; i < before_.size(); ++i) {
    if (!before_[i].defined()) continue;
    const Optimizer::Parameter& one = optimizer.parameters()[i];
    const bool narrow = one.value.element_size() < 4;
    const torch::Tensor old = narrow ? before_[i].to(torch::kFloat32) : before_[i];
    const torch::Tensor now = narrow ? one.value.detach().to(torch::kFloat32) : one.value.detach();
    const torch::Tensor moved = (now - old).abs();
    const std::string path = "model/" + one.key;
    if (spec_.update_jump > 0 && learning_rate > 0) {
      const double size = moved.to(torch::kFloat64).square().mean().sqrt().item<double>() / learning_rate;
      see_recent(Guard::update_jump, spec_.update_jump, size, updates_[one.key], step, path, true);
    }
    if (!spec_.update_bound) continue;
    const double most = (moved - old.abs() * (decay + rounding_of(one.value))).max().item<double>();
    if (!(most <= limit)) raise(Guard::update_bound, step, path, most, limit);
  }
}

// More than half of the replicas are right. Where there is no such majority, each of them may be wrong.
void Guards::see_replicas(const Optimizer& optimizer, const mpi::Communicator& peers, std::int64_t step,
                          bool again) {
  if (!spec_.replicas) return;
  std::uint64_t print = 0;
  for (const Optimizer::Parameter& one : optimizer.parameters()) {
    const torch::Tensor here = one.value.detach().cpu().contiguous();
    print = block_digest(here.const_data_ptr(), here.nbytes(), print);
  }
  std::vector<std::uint64_t> all(static_cast<std::size_t>(peers.size()));
  peers.allgather_equal(&print, sizeof print, all.data());
  const auto alike = [&](std::uint64_t one) { return 2 * std::ranges::count(all, one) > peers.size(); };
  if (again || std::ranges::count(all, print) == peers.size() || alike(print)) return;
  raise(Guard::replicas, step, "", 0, std::ranges::any_of(all, alike) ? 1 : 0);
}

void Guards::see_recomputed(bool equal, std::int64_t step) {
  if (!equal) raise(Guard::recompute, step, "", 0, 0);
}

void Guards::remember(Session& session, std::int64_t step) {
  if (!spec_.fingerprints) return;
  const bool reloads = spec_.on_alarm == record::OnAlarm::reload;
  for (const StateTensor& tensor : session.tensors(false)) {
    const auto size = static_cast<std::size_t>(tensor.meta.bytes());
    Print& print = prints_[tensor.meta.path];
    tensor.read([&](const void* bytes) {
      print.digest = block_digest(bytes, size, 0);
      if (reloads)
        print.bytes.assign(static_cast<const std::uint8_t*>(bytes),
                           static_cast<const std::uint8_t*>(bytes) + size);
    });
  }
  printed_ = step;
}

void Guards::compare(Session& session, std::int64_t step) {
  if (!spec_.fingerprints || prints_.empty() || printed_ != step) return;
  for (StateTensor& tensor : session.tensors(false)) {
    const auto known = prints_.find(tensor.meta.path);
    if (known == prints_.end()) continue;
    const auto size = static_cast<std::size_t>(tensor.meta.bytes());
    std::uint64_t digest = 0;
    tensor.read([&](const void* bytes) { digest = block_digest(bytes, size, 0); });
    if (digest == known->second.digest) continue;
    raise(Guard::fingerprints, step + 1, tensor.meta.path, 0, 0);
    const std::vector<std::uint8_t>& kept = known->second.bytes;
    if (kept.size() != size || size == 0) continue;
    tensor.write([&](void* bytes) { std::memcpy(bytes, kept.data(), size); });
    note_act(step + 1);
  }
}

void Guards::see_state(Session& session, std::int64_t step) {
  if (!spec_.nonfinite && !spec_.moment_bound) return;
  const torch::NoGradGuard no_grad;
  for (const StateTensor& tensor : session.tensors(false)) {
    if (tensor.meta.format.kind == NumberKind::floating && tensor.meta.elements() > 0)
      see_tensor(tensor, step);
  }
}

// One pass gives both: the largest magnitude is NaN or infinite if some element is. No copy is made.
void Guards::see_tensor(const StateTensor& tensor, std::int64_t step) {
  const bool moment = spec_.moment_bound && tensor.meta.path.starts_with("optimizer/exp_avg/");
  if (!spec_.nonfinite && !moment) return;
  const auto [least, most] = torch::aminmax(tensor.value.detach());
  const double largest = torch::maximum(least.abs(), most.abs()).item<double>();
  if (spec_.nonfinite && !std::isfinite(largest)) raise(Guard::nonfinite, step, tensor.meta.path, largest, 0);
  const double limit = 20 * std::sqrt(static_cast<double>(tensor.meta.elements())) / batch_size_;
  if (moment && !(largest <= limit)) raise(Guard::moment_bound, step, tensor.meta.path, largest, limit);
}

void Guards::see_checksums(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) raise(Guard::checksums, 0, path, 0, 0);
}

void Guards::raise(Guard guard, std::int64_t step, const std::string& tensor, double value, double limit) {
  ++count_;
  const record::Alarm alarm{guard, step, rank_, tensor, value, limit};
  if (alarms_.size() < most_alarms) alarms_.push_back(alarm);
  if (guard != Guard::checksums && new_.empty()) new_ = describe(alarm);
}

void Guards::clear() {
  alarms_.clear();
  count_ = 0;
  new_.clear();
  prints_.clear();
  updates_.clear();
  outputs_.ranges.clear();
  acted_.clear();
}

std::string nonfinite_metric(const std::vector<record::Evaluation>& replicas, bool overflow_is_usual) {
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    if (!std::isfinite(replicas[r].test_loss.value_or(0))) return fmt::format("test loss of replica {}", r);
    if (!overflow_is_usual && !std::isfinite(replicas[r].train_loss.value_or(0))) return "training loss";
  }
  return "";
}

void gather_alarms(const Guards& guards, const mpi::Communicator& ranks, record::RunResult& result) {
  const record::Json mine = {
      {"count", guards.count()}, {"alarms", guards.alarms()}, {"acted", guards.acted()}};
  std::set<std::int64_t> acted;
  for (const std::string& text : ranks.allgather(mine.dump())) {
    const record::Json theirs = record::Json::parse(text);
    result.alarm_count += theirs["count"].get<std::int64_t>();
    for (const record::Json& alarm : theirs["alarms"]) result.alarms.push_back(alarm.get<record::Alarm>());
    for (const record::Json& step : theirs["acted"]) acted.insert(step.get<std::int64_t>());
  }
  const record::OnAlarm action = guards.spec().on_alarm;
  for (const std::int64_t step : acted) {
    if (result.guard_action_count++ >= most_actions) continue;
    result.guard_actions.push_back({action, step, action == record::OnAlarm::reload ? step - 1 : step});
  }
  std::stable_sort(result.alarms.begin(), result.alarms.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
}

}  // namespace bitrift::train
