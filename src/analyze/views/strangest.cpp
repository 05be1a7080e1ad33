#include "analyze/views/strangest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/number/number_format.h"

namespace bitrift::analyze {
namespace {

constexpr std::size_t kOfOneReason = 3;

/// The first `most` faults of sorted lines, each once, and at most `of_one_reason` with the same reason.
std::vector<StrangeFault> first_faults(const std::vector<TrialLine>& lines, std::size_t most,
                                       std::size_t of_one_reason) {
  std::vector<StrangeFault> faults;
  std::map<std::string, std::size_t> at;
  std::map<record::Reason, std::size_t> taken;
  for (const TrialLine& line : lines) {
    const record::TrialRecord& row = *line.row;
    const std::string name =
        fmt::format("{}/{} {}", row.id.stratum, row.id.draw, record::described(row.faults, 1));
    if (const auto known = at.find(name); known != at.end()) {
      faults[known->second].arms.push_back(row.id.arm);
      continue;
    }
    if (faults.size() == most || taken[line.outcome.reason] == of_one_reason) continue;
    ++taken[line.outcome.reason];
    at[name] = faults.size();
    faults.push_back({line, {row.id.arm}});
  }
  return faults;
}

void sort_rarest_first(std::vector<TrialLine>& crashes) {
  std::map<record::Reason, std::size_t> counts;
  for (const TrialLine& line : crashes) ++counts[line.outcome.reason];
  std::stable_sort(crashes.begin(), crashes.end(), [&](const TrialLine& a, const TrialLine& b) {
    const record::Reason first = a.outcome.reason;
    const record::Reason second = b.outcome.reason;
    return std::pair(counts.at(first), first) < std::pair(counts.at(second), second);
  });
}

std::vector<TrialLine> largest_first(const std::vector<TrialLine>& masked) {
  std::vector<std::pair<double, const TrialLine*>> order;
  for (const TrialLine& line : masked) {
    if (const double change = largest_change(*line.row); change > 0) order.emplace_back(-change, &line);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<TrialLine> sorted;
  sorted.reserve(order.size());
  for (const auto& [change, line] : order) sorted.push_back(*line);
  return sorted;
}

}  // namespace

double largest_change(const record::TrialRecord& row) {
  double largest = 0;
  const auto add = [&](const NumberFormat& format, std::uint64_t before, std::uint64_t after) {
    const double change = decode_number(format, after) - decode_number(format, before);
    // Two NaN, or two infinite numbers, have no known distance.
    largest =
        std::isnan(change) ? std::numeric_limits<double>::infinity() : std::max(largest, std::abs(change));
  };
  const record::FaultList& bits = row.faults.bits();
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const record::AppliedFault fault = bits.at(i);
    const auto format = number_format(fault.dtype);
    if (!format || record::names_byte(fault.plane, fault.structure)) continue;
    add(*format, fault.old_pattern, fault.new_pattern);
  }
  if (!row.result) return largest;
  for (const record::AlteredMessage& message : row.result->altered_messages) {
    if (const auto format = number_format(message.dtype))
      add(*format, message.old_pattern, message.new_pattern);
  }
  for (const record::AlteredValue& altered : row.result->altered_values) {
    if (const auto format = number_format(altered.dtype))
      add(*format, altered.old_pattern, altered.new_pattern);
  }
  return largest;
}

Strangest strangest(const std::vector<TrialLine>& lines, const Judging& judging, std::size_t most) {
  std::map<record::OutcomeClass, std::vector<TrialLine>> by_class;
  for (const TrialLine& line : lines) by_class[line.outcome.outcome_class()].push_back(line);
  auto& harmed = by_class[record::OutcomeClass::sdc];
  const std::vector<record::Metric> last_first(judging.metrics.rbegin(), judging.metrics.rend());
  sort_worst_first(harmed, record::Metric::test_loss);
  for (const record::Metric& metric : last_first) sort_worst_first(harmed, metric);
  sort_worst_first(harmed);
  auto& crashes = by_class[record::OutcomeClass::crash];
  sort_rarest_first(crashes);
  return {first_faults(harmed, most, most), first_faults(crashes, most, kOfOneReason),
          first_faults(largest_first(by_class[record::OutcomeClass::masked]), most, most)};
}

}  // namespace bitrift::analyze
