// Folders of campaigns: their rows, outcomes and rates.
#pragma once

#include <pybind11/pybind11.h>

namespace bitrift::python {

/// Adds read_journal, report, outcomes, trials, compare, propagation, detectors, process, vulnerability_map,
/// summary and table. Structured values are JSON text, except the columns of `trials`.
void add_campaigns(pybind11::module_& module);

}  // namespace bitrift::python
