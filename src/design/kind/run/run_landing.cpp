#include "design/kind/run/run_landing.h"

#include "design/kind/run/compute_strata.h"
#include "design/kind/run/link_strata.h"
#include "design/kind/run/process_strata.h"
#include "design/kind/run/wire_strata.h"

namespace bitrift::design {
namespace {

bool landed(const record::FaultList&, const RunEnd&) { return false; }

}  // namespace

bool landed(const record::Faults& faults, const RunEnd& end) {
  return faults.visit([&](const auto& list) { return landed(list, end); });
}

}  // namespace bitrift::design
