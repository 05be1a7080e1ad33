// Number types of a run. Inside train/ only.
#pragma once

#include <string>

#include "dataset/torch.h"
#include "nn/layer/layer.h"

namespace bitrift::train {

/// What a precision of a spec means.
struct Precision {
  /// precision: fp32 | fp64 | bf16 | fp16 | autocast-bf16 | autocast-fp16.
  explicit Precision(const std::string& precision);
  torch::ScalarType parameters = torch::kFloat32;
  bool autocast = false;
  torch::ScalarType compute = torch::kFloat32;  ///< of the operators that autocast lowers
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
