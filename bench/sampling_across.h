// How often comparisons of two campaigns, and the gate, are wrong, and how often they find a difference.
#pragma once

namespace bitrift {

/// Prints, for campaigns of a thousand trials with other faults and equal rates, the share whose interval of
/// the difference leaves out 0 at any of twenty looks, and for rates five points apart the share that finds
/// it; beside both, Fisher's test at the end. Returns an exit code.
int unpaired(int repetitions);

/// Prints how often a gate fails: without an increase, with one as large as the tolerance, and with one of
/// five points in a thousand trials. Returns an exit code.
int gate(int repetitions);

}  // namespace bitrift
