// Trials as columns: a table of 10^5 rows crosses to Python as a few blocks of memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <pybind11/pybind11.h>

#include "analyze/views/trials_view.h"

namespace bitrift::python {

/// A list of (name, kind, values, extra) in the order of the table's columns. values: little-endian bytes of
/// the items.
///   "float"     double
///   "bool"      one byte
///   "int", "uint"  64 bits; extra: a byte for each item, 1 where there is none, or None
///   "category"  int32 indices into extra, a sorted list of texts; -1: none
///   "tuple"     the same, extra being a list of tuples of integers
///   "text"      values: a list of texts
/// layers: by tensor.
[[nodiscard]] pybind11::list trial_columns(const std::vector<analyze::TrialLine>& lines,
                                           const std::map<std::string, std::string>& layers);

}  // namespace bitrift::python
