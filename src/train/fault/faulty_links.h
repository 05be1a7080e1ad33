// The effects of links on the messages of gradients in a run. Inside train/ only.
#pragma once

#include <cstdint>

#include "train/fault/link_failures.h"
#include "train/fault/message_flips.h"

namespace bitrift::train {

struct FaultyLinks {
  MessageFlips flips;
  LinkFailures failures;
  /// The current step of this run, 1-based.
  void at_step(std::int64_t step) {
    flips.at_step(step);
    failures.at_step(step);
  }
};

}  // namespace bitrift::train
