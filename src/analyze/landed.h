// Trials whose fault never reached the run.
#pragma once

#include "record/trial.h"

namespace bitrift::analyze {

/// A trial whose loaded state did not differ from the base as its fault says tells nothing about the fault,
/// and would count as masked. Refuses it with Error(conflict), unless there was no loaded state to compare:
/// the run rejected the file, or failed.
void refuse_unless_landed(const record::TrialRecord& row);

}  // namespace bitrift::analyze
