#include "analyze/views/counted_rows.h"

#include <cstdint>

namespace bitrift::analyze {

std::map<std::string, std::vector<const record::TrialRecord*>> counted_rows(
    const std::vector<record::TrialRecord>& rows, const std::string& arm) {
  std::map<std::string, std::map<std::uint64_t, const record::TrialRecord*>> sorted;
  for (const record::TrialRecord& row : rows) {
    if (row.kind == record::TrialKind::trial && row.id.arm == arm) sorted[row.id.stratum][row.id.draw] = &row;
  }
  std::map<std::string, std::vector<const record::TrialRecord*>> counted;
  for (const auto& [stratum, trials] : sorted) {
    auto& all = counted[stratum];
    for (const auto& [draw, row] : trials) {
      if (draw != all.size()) break;
      all.push_back(row);
    }
  }
  return counted;
}

}  // namespace bitrift::analyze
