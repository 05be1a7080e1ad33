// How often comparisons of arms are wrong, and how often they find a difference.
#pragma once

namespace bitrift {

/// Prints, for arms with equal rates, the share of campaigns whose interval of the difference leaves out 0 at
/// any of twenty looks, and for rates five points apart the share that finds it in a thousand pairs. Returns
/// an exit code.
int paired(int repetitions);

}  // namespace bitrift
