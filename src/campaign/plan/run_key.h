// Which run of a campaign is meant, before its faults are looked up.
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
/// The golden data order, one of 0 .. orders - 1, that a run takes its batches in or is compared with: of a
/// trial or a jitter run draw mod orders, of a no-flip run the one its stratum names, of all others 0.
[[nodiscard]] int order_of(const RunKey& key, int orders);

/// "arm/stratum/draw" taken apart from the right. Throws Error(bad_input) for anything else.
[[nodiscard]] record::TrialId trial_id_from_text(const std::string& text);

}  // namespace bitrift::campaign
