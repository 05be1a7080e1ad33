#include "train/run/guards.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace bitrift::train {
namespace {

using record::Guard;

constexpr std::size_t most_alarms = 100;
constexpr std::int64_t first_judged_loss = 8;  // earlier losses only contribute to the mean
constexpr std::int64_t mean_over = 32;

}  // namespace

Guards::Guards(const record::TrainingSpec& spec, int rank, bool overflow_is_usual)
    : spec_(spec.guards),
      rank_(rank),
      overflow_is_usual_(overflow_is_usual),
      any_(spec_.any()),
      batch_size_(spec.batch_size) {}

void Guards::see_loss(double loss, Progress& progress) {
  const std::int64_t step = progress.step + 1;
  if (!std::isfinite(loss)) {
    if (spec_.nonfinite && rank_ == 0 && !overflow_is_usual_) raise(Guard::nonfinite, step, "", loss, 0);
    return;
  }
  if (spec_.loss_spike == 0) return;
  const double limit = spec_.loss_spike * progress.guard_loss_mean;
  if (progress.guard_loss_count >= first_judged_loss && loss > limit && rank_ == 0)
    raise(Guard::loss_spike, step, "", loss, limit);
  progress.guard_loss_count += 1;
  const std::int64_t weight = std::min(progress.guard_loss_count, mean_over);
  progress.guard_loss_mean += (loss - progress.guard_loss_mean) / static_cast<double>(weight);
}

void Guards::see_gradient_norm(double norm, std::int64_t step) {
  const bool excused = overflow_is_usual_ && !std::isfinite(norm);
  if (wants_gradient_norm() && rank_ == 0 && !excused && !(norm <= spec_.gradient_norm))
    raise(Guard::gradient_norm, step, "", norm, spec_.gradient_norm);
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
}

std::string nonfinite_metric(const std::vector<record::Evaluation>& replicas, bool overflow_is_usual) {
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    if (!std::isfinite(replicas[r].test_loss.value_or(0))) return fmt::format("test loss of replica {}", r);
    if (!overflow_is_usual && !std::isfinite(replicas[r].train_loss.value_or(0))) return "training loss";
  }
  return "";
}

void gather_alarms(const Guards& guards, const mpi::Communicator& ranks, record::RunResult& result) {
  const record::Json mine = {{"count", guards.count()}, {"alarms", guards.alarms()}};
  for (const std::string& text : ranks.allgather(mine.dump())) {
    const record::Json theirs = record::Json::parse(text);
    result.alarm_count += theirs["count"].get<std::int64_t>();
    for (const record::Json& alarm : theirs["alarms"]) result.alarms.push_back(alarm.get<record::Alarm>());
  }
  std::stable_sort(result.alarms.begin(), result.alarms.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
}

}  // namespace bitrift::train
