// The identity of a planned run.
#pragma once

#include <string>

#include "record/trial.h"

namespace bitrift::campaign {

/// Identity of a planned run, before its faults are looked up.
struct RunKey {
  record::TrialKind kind = record::TrialKind::trial;
  record::TrialId id;
};

/// Whether a run alters nothing and takes the steps of a golden data order.
[[nodiscard]] bool is_golden_run(const RunKey& key);
/// The golden data order, one of 0 .. orders - 1, in which a run takes its batches or with which it is
/// compared: draw mod orders for a trial or a jitter run, the one named by the stratum for a no-flip run, 0
/// for all others.
[[nodiscard]] int order_of(const RunKey& key, int orders);

/// Splits "arm/stratum/draw" from the right. Throws Error(bad_input) for anything else.
[[nodiscard]] record::TrialId trial_id_from_text(const std::string& text);

}  // namespace bitrift::campaign
