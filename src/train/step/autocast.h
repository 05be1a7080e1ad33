// The number types of a run. Inside train/ only.
#pragma once

#include "dataset/torch.h"
#include "nn/layer/layer.h"
#include "spec/training_spec.h"

namespace bitrift::train {

/// The meaning of a spec's precision.
struct Precision {
  explicit Precision(record::Precision precision);
  torch::ScalarType parameters = torch::kFloat32;
  bool autocast = false;
  torch::ScalarType compute = torch::kFloat32;  ///< type of the operators that autocast lowers
};

/// Autocast around a forward pass, as `with torch.autocast(device, dtype)` in Python: entering and leaving
/// the outermost one empties the cache of lowered weights. Does nothing without autocast.
class AutocastRegion {
 public:
  AutocastRegion(const Precision& precision, torch::Device device);
  ~AutocastRegion();
  AutocastRegion(AutocastRegion&&) = delete;
  AutocastRegion& operator=(AutocastRegion&&) = delete;

 private:
  bool active_;
  torch::DeviceType device_;
};

}  // namespace bitrift::train
