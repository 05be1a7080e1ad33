// Trials whose fault never reached the run.
#pragma once

#include "record/trial.h"

namespace bitrift::analyze {

/// A trial whose loaded state does not differ from the base in the way of its fault says nothing about the
/// fault, and would count as masked. Refuses it with Error(conflict), unless no state was loaded that could
/// be compared: the run rejected the file, or failed.
void refuse_unless_landed(const record::TrialRecord& row);

}  // namespace bitrift::analyze
