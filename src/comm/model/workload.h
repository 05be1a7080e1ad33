// The message and the links for which an allreduce is planned and modelled.
#pragma once

#include "comm/model/link_model.h"

namespace bitrift::comm {

/// The defaults: the gradients of ResNet-50 in fp32, on links as assumed in docs/mesh-bound.md.
struct Workload {
  double bytes = 102e6;  ///< of each chip's buffer
  LinkCost cost = {.bandwidth = 83e9, .latency = 1e-6, .overhead = 1e-7};
};

}  // namespace bitrift::comm
