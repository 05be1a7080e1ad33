#include "train/fault/compute_flips.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "nn/layer/format_name.h"

namespace bitrift::train {

using record::AlteredValue;
using record::ComputeFault;
using record::ComputeSite;

namespace {

// The element of this row-major number, as a tensor of no dimension that shares its memory.
torch::Tensor element_of(const torch::Tensor& values, std::int64_t number) {
  torch::Tensor element = values;
  std::vector<std::int64_t> place(static_cast<std::size_t>(values.dim()));
  for (std::size_t d = place.size(); d > 0; --d) {
    const std::int64_t extent = values.size(static_cast<std::int64_t>(d - 1));
    place[d - 1] = number % extent;
    number /= extent;
  }
  for (const std::int64_t index : place) element = element.select(0, index);
  return element;
}

std::uint64_t pattern_of(const torch::Tensor& element) {
  const torch::Tensor here = element.to(torch::kCPU);
  std::uint64_t pattern = 0;  // little-endian, as every machine that LibTorch runs on
  std::memcpy(&pattern, here.const_data_ptr(), static_cast<std::size_t>(here.element_size()));
  return pattern;
}

// The elements that a fault strikes in a tensor of so many, in order.
std::vector<std::int64_t> struck_by(const ComputeFault& fault, std::int64_t count) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(static_cast<std::size_t>(fault.elements));
  const std::int64_t stride = fault.stride % count;
  for (std::int64_t i = 0, at = fault.element; i < fault.elements; ++i, at = (at + stride) % count)
    numbers.push_back(at);
  return numbers;
}

// Alters the elements in place.
void alter(const torch::Tensor& values, const ComputeFault& fault) {
  const torch::Tensor here =
      values.cpu().contiguous();  // shares memory with `values` where it is both already
  auto* const bytes = static_cast<std::uint8_t*>(here.data_ptr());
  const std::int64_t size = here.element_size();
  const std::string dtype = nn::format_name(here.scalar_type());
  for (const std::int64_t at : struck_by(fault, here.numel())) {
    std::uint64_t pattern = 0;  // little-endian
    std::memcpy(&pattern, bytes + at * size, static_cast<std::size_t>(size));
    pattern = record::pattern_after(fault, dtype, pattern);
    std::memcpy(bytes + at * size, &pattern, static_cast<std::size_t>(size));
  }
  if (!here.is_alias_of(values)) torch::Tensor(values).copy_(here);
}

}  // namespace

// A gradient is struck long after the forward pass: the hook needs the flips, which outlive every step.
class ComputeFlips::Tap : public nn::OutputTap {
 public:
  Tap(ComputeFlips& flips, std::vector<std::size_t> activations, std::vector<std::size_t> gradients)
      : flips_(flips), activations_(std::move(activations)), gradients_(std::move(gradients)) {}

  torch::Tensor output(const std::string& layer, torch::Tensor y) override {
    const std::vector<std::size_t> activations = flips_.naming(activations_, layer);
    if (!activations.empty()) y = y.clone();
    for (const std::size_t fault : activations) flips_.strike(fault, y.detach());
    const std::vector<std::size_t> gradients = flips_.naming(gradients_, layer);
    if (!gradients.empty() && y.requires_grad()) {
      y.register_hook([&flips = flips_, gradients](const torch::Tensor& gradient) {
        torch::Tensor altered = gradient.detach().clone();
        for (const std::size_t fault : gradients) flips.strike(fault, altered);
        return altered;
      });
    }
    return flips_.watcher_ == nullptr ? y : flips_.watcher_->output(layer, std::move(y));
  }

 private:
  ComputeFlips& flips_;
  std::vector<std::size_t> activations_, gradients_;
};

void ComputeFlips::arm(std::vector<ComputeFault> faults) {
  faults_ = std::move(faults);
  altered_.clear();
  updates_.clear();
  at_step(0);
}

void ComputeFlips::at_step(std::int64_t step) {
  step_ = step;
  near_ = std::ranges::any_of(faults_, [step](const ComputeFault& fault) { return fault.strikes(step); });
}

std::vector<std::size_t> ComputeFlips::here(ComputeSite site, int replica, std::int64_t micro_batch) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const ComputeFault& fault = faults_[i];
    if (fault.site == site && fault.replica == replica && fault.micro_batch == micro_batch &&
        fault.strikes(step_) && !spent(fault))
      found.push_back(i);
  }
  return found;
}

// A step that is computed again meets a fault again only if that lasts.
bool ComputeFlips::spent(const ComputeFault& fault) const {
  const auto known = std::ranges::find(altered_, fault, &AlteredValue::fault);
  return fault.lasting != 0 && known != altered_.end() && known->times >= fault.lasting;
}

std::vector<std::size_t> ComputeFlips::naming(const std::vector<std::size_t>& faults,
                                              const std::string& tensor) const {
  std::vector<std::size_t> found;
  std::ranges::copy_if(faults, std::back_inserter(found),
                       [&](std::size_t fault) { return faults_[fault].tensor == tensor; });
  return found;
}

nn::OutputTap* ComputeFlips::tap(int replica, std::int64_t micro_batch) {
  if (!near_) return watcher_;
  std::vector<std::size_t> activations = here(ComputeSite::activation, replica, micro_batch);
  std::vector<std::size_t> gradients = here(ComputeSite::gradient, replica, micro_batch);
  if (activations.empty() && gradients.empty()) return watcher_;
  tap_ = std::make_shared<Tap>(*this, std::move(activations), std::move(gradients));
  return tap_.get();
}

void ComputeFlips::strike(std::size_t fault, const torch::Tensor& values) {
  const torch::NoGradGuard no_grad;
  const ComputeFault& one = faults_[fault];
  const std::int64_t count = values.numel();
  if (one.element >= count || one.bit >= static_cast<int>(values.element_size()) * 8) {
    fail(ErrorCode::internal, "{}: the tensor has {} elements of {} bytes", record::to_text(one), count,
         values.element_size());
  }
  AlteredValue altered{.fault = one, .dtype = nn::format_name(values.scalar_type())};
  altered.old_pattern = pattern_of(element_of(values, one.element));
  alter(values, one);
  altered.new_pattern = pattern_of(element_of(values, one.element));
  note(fault, std::move(altered));
}

void ComputeFlips::note(std::size_t fault, AlteredValue altered) {
  const auto known = std::ranges::find(altered_, faults_[fault], &AlteredValue::fault);
  AlteredValue& noted = known == altered_.end() ? altered_.emplace_back(std::move(altered)) : *known;
  noted.times += 1;
}

void ComputeFlips::strike_where(ComputeSite site, int replica, const std::string& key,
                                const torch::Tensor& values) {
  for (const std::size_t fault : naming(here(site, replica, 0), key)) strike(fault, values.detach());
}

void ComputeFlips::keep_before_update(int replica, const std::string& key, const torch::Tensor& parameter) {
  const torch::NoGradGuard no_grad;
  std::vector<std::size_t> faults = naming(here(ComputeSite::update, replica, 0), key);
  if (!faults.empty())
    updates_.push_back({std::move(faults), parameter.detach(), parameter.detach().clone()});
}

// Only the elements that are struck change: the others keep what the optimizer wrote, whose last bit a
// difference and a sum may not give back.
void ComputeFlips::strike_updates() {
  const torch::NoGradGuard no_grad;
  for (const Update& update : std::exchange(updates_, {})) {
    const torch::Tensor added = update.parameter - update.before;
    torch::Tensor struck = torch::zeros({added.numel()}, torch::kBool);
    for (const std::size_t fault : update.faults) {
      strike(fault, added);
      for (const std::int64_t at : struck_by(faults_[fault], added.numel()))
        struck.data_ptr<bool>()[at] = true;
    }
    struck = struck.view(added.sizes()).to(added.device());
    update.parameter.copy_(torch::where(struck, update.before + added, update.parameter));
  }
}

bool ComputeFlips::due_after(std::int64_t steps) const {
  return std::ranges::any_of(faults_, [steps](const ComputeFault& fault) {
    const auto last = fault.last_step();
    return !last || *last > steps;
  });
}

void ComputeFlips::gather(const mpi::Communicator& ranks, record::RunResult& result) const {
  if (faults_.empty()) return;
  std::vector<AlteredValue> all;
  for (const std::string& text : ranks.allgather(record::Json(altered_).dump())) {
    for (const record::Json& altered : record::Json::parse(text)) all.push_back(altered.get<AlteredValue>());
  }
  result.altered_values.clear();
  for (const ComputeFault& fault : faults_) {
    std::ranges::copy_if(all, std::back_inserter(result.altered_values),
                         [&](const AlteredValue& altered) { return altered.fault == fault; });
  }
}

std::vector<ComputeFault> ComputeFlips::missing(const record::RunResult& result) const {
  std::vector<ComputeFault> found;
  std::ranges::copy_if(faults_, std::back_inserter(found), [&](const ComputeFault& fault) {
    return std::ranges::find(result.altered_values, fault, &AlteredValue::fault) ==
           result.altered_values.end();
  });
  return found;
}

}  // namespace bitrift::train
