#include "train/step/autocast.h"

#include <ATen/autocast_mode.h>

namespace bitrift::train {

Precision::Precision(record::Precision precision) {
  using enum record::Precision;
  autocast = precision == autocast_bf16 || precision == autocast_fp16;
  if (precision == bf16 || precision == autocast_bf16) compute = torch::kBFloat16;
  if (precision == fp16 || precision == autocast_fp16) compute = torch::kFloat16;
  if (precision == fp64) compute = torch::kFloat64;
  parameters = autocast ? torch::kFloat32 : compute;
}

AutocastRegion::AutocastRegion(const Precision& precision, torch::Device device)
    : active_(precision.autocast), device_(device.type()) {
  if (!active_) return;
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, precision.compute);
  at::autocast::increment_nesting();
  at::autocast::set_autocast_cache_enabled(true);
}

AutocastRegion::~AutocastRegion() {
  if (!active_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, false);
}

}  // namespace bitrift::train
