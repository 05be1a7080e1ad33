// How far estimates lie from the truth in the mean.
#pragma once

namespace bitrift {

/// Prints the relative bias of the rates of campaigns that sample by rounds: of sum_h w_h k_h / n_h, and of
/// the estimate in use. Returns an exit code.
int bias(int repetitions);

}  // namespace bitrift
