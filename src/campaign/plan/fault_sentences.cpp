#include "campaign/plan/fault_sentences.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/ranges.h>

#include "core/error.h"

namespace bitrift::campaign {
namespace {

using record::Json;

// The number of faults in all strata; nullopt where it is not known for each of them, or they are not lists.
std::optional<std::uint64_t> size_of(const design::CampaignSpec& spec,
                                     const std::vector<record::Round>& rounds,
                                     const std::vector<record::TrialRecord>& rows) {
  std::map<std::string, std::uint64_t> sizes;
  for (const record::TrialRecord& row : rows) {
    if (row.kind == record::TrialKind::trial) sizes[row.id.stratum] = row.stratum_bits;
  }
  for (const record::Round& round : rounds) {
    for (const record::StratumDraws& one : round.strata) sizes[one.stratum.name] = one.stratum.bits;
  }
  std::uint64_t sum = 0;
  for (const record::Stratum& stratum : spec.strata->strata()) {
    const auto known = sizes.find(stratum.name);
    if (known == sizes.end() || known->second == 0 || known->second >= record::unbounded_stratum)
      return std::nullopt;
    sum += known->second;
  }
  return sum;
}

std::string scope_text(const design::Arm& arm) {
  const record::Scope& scope = arm.scope;
  if (scope.all()) return "";
  if (scope.stage >= 0) return fmt::format("in the file that stage {} loads", scope.stage);
  const int all = arm.parallel.replicas();
  if (scope.count > 0) {
    return fmt::format("in the file that {} of {} replicas load{} (drawn for each fault)", scope.count, all,
                       scope.count == 1 ? "s" : "");
  }
  const bool one = scope.replicas.size() == 1;
  return fmt::format("in the file that replica{} {} of {} load{}", one ? "" : "s",
                     fmt::join(scope.replicas, ", "), all, one ? "s" : "");
}

}  // namespace

FaultSentences fault_sentences(const design::CampaignSpec& spec, const std::vector<record::Round>& rounds,
                               const std::vector<record::TrialRecord>& rows) {
  FaultSentences said{spec.strata->sentences(size_of(spec, rounds, rows)), {}};
  for (const design::Arm& arm : spec.arms) said.scopes[arm.name] = scope_text(arm);
  said.limits.push_back(
      spec.orders == 1
          ? "All trials see the batches in one order. Other orders may have other rates."
          : fmt::format("The trials of a stratum see the batches in {} orders in turn.", spec.orders));
  return said;
}

Json to_json(const FaultSentences& sentences) {
  return {{"faults", sentences.faults}, {"scopes", sentences.scopes}, {"rates", sentences.rates},
          {"limits", sentences.limits}, {"no_map", sentences.no_map}, {"numbers", sentences.numbers}};
}

}  // namespace bitrift::campaign
