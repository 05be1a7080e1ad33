// The resolution of a campaign: the smallest harm that it would call an SDC.
#pragma once

#include <map>
#include <optional>

#include "analyze/verdict/controls.h"

namespace bitrift::analyze {

/// By judged metric: the smallest fall of an accuracy (a share, 0.02 is two points) or rise of a loss
/// (relative, 0.2 is 20 %) or change of a custom metric (in its own unit) against the golden run that is
/// outside at the horizon, if nothing else changes; with several data orders the largest of these. nullopt:
/// not even the worst value is outside.
using Resolution = std::map<record::Metric, std::optional<double>>;

[[nodiscard]] Resolution resolution_of(const ArmControls& controls);

}  // namespace bitrift::analyze
