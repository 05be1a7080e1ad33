// Processes of a save that are followed by ptrace(2).
#pragma once

#include <pybind11/pybind11.h>

namespace bitrift::python {

/// Adds trace_save and trace_race: (calls, exit code, signal, waited), each call as (name, bytes, aside).
void add_traces(pybind11::module_& module);

}  // namespace bitrift::python
