#include "comm/model/training_step.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace bitrift::comm {

TrainingStep training_step(const StepCost& cost, double allreduce) {
  const bool fine = cost.compute >= 0 && allreduce >= 0 && std::isfinite(cost.compute) &&
                    std::isfinite(allreduce) && cost.compute + allreduce > 0 && cost.overlap >= 0 &&
                    cost.overlap <= 1;
  if (!fine)
    fail(ErrorCode::bad_input,
         "a step of {} s of computing and {} s of allreduce, of which a part of {} overlaps: expected times "
         "of 0 or more, one of them above 0, and a part from 0 to 1",
         cost.compute, allreduce, cost.overlap);
  return {.compute = cost.compute,
          .allreduce = allreduce,
          .hidden = std::min(cost.overlap * allreduce, backward_part * cost.compute)};
}

FailureLoss failure_loss(const TrainingStep& step, int live, const TrainingStep& whole, int chips) {
  const double alive = static_cast<double>(live) / chips;
  return {.chips = 1 - alive, .throughput = 1 - alive * step.rate() / whole.rate()};
}

std::optional<double> assumed_compute(double bytes) {
  for (const KnownNetwork& network : known_networks)
    if (network.bytes == bytes) return network.compute;
  return std::nullopt;
}

}  // namespace bitrift::comm
