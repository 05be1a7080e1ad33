#include "campaign/plan/own_canaries.h"

#include "campaign/plan/link_population.h"
#include "campaign/plan/message_population.h"
#include "campaign/plan/process_population.h"
#include "record/stratum_name.h"

namespace bitrift::campaign {

using record::TrialKind;

std::vector<std::vector<RunKey>> own_canary_chains(const record::CampaignSpec& spec, const record::Arm& arm) {
  std::vector<std::vector<RunKey>> chains;
  std::vector<RunKey> survived;
  if (spec.strata.wire) {
    for (const record::LinkCanary canary : record::link_canaries)
      survived.push_back({TrialKind::canary, {arm.name, name_of(canary), 0}});
  }
  if (spec.strata.link) {
    for (const record::FailedLinkCanary canary : record::failed_link_canaries)
      survived.push_back({TrialKind::canary, {arm.name, name_of(canary), 0}});
  }
  if (spec.strata.process) {
    for (const record::ProcessCanary canary : record::process_canaries(arm.recovery)) {
      const RunKey key{TrialKind::canary, {arm.name, name_of(canary), 0}};
      if (canary == record::ProcessCanary::no_recovery) {
        chains.push_back({key});
      } else {
        survived.push_back(key);
      }
    }
  }
  if (survived.empty()) return chains;
  survived.push_back(
      {TrialKind::control,
       {arm.name, record::control_stratum(0), static_cast<std::uint64_t>(spec.control_repeats) + 1}});
  chains.push_back(std::move(survived));
  return chains;
}

bool expand_own_canary(const record::CampaignSpec& spec, const record::Arm& arm, const std::string& stratum,
                       record::TrialSpec& run) {
  if (const auto canary = find_named<record::LinkCanary>(stratum)) {
    run.faults = std::vector{canary_fault(*canary, spec.strata.wire.value(), spec.resume_epochs)};
    return true;
  }
  if (const auto canary = find_named<record::FailedLinkCanary>(stratum)) {
    run.faults = std::vector{
        canary_link(*canary, spec.strata.link.value(), arm.parallel.mesh.value(), spec.resume_epochs)};
    return true;
  }
  const auto canary = find_named<record::ProcessCanary>(stratum);
  if (!canary) return false;
  run.recovery = *canary == record::ProcessCanary::no_recovery ? record::RecoverySpec{} : arm.recovery;
  run.faults = canary_faults(*canary, spec, arm);
  return true;
}

}  // namespace bitrift::campaign
