// Canaries of campaigns whose faults strike while a run is under way.
#pragma once

#include <string>
#include <vector>

#include "campaign/plan/run_key.h"
#include "record/trial.h"
#include "spec/campaign_spec.h"

namespace bitrift::campaign {

/// The chains of such an arm: the canaries that its worker survives, with a control behind them, which shows
/// that nothing of them stays in the worker; and those that it does not. None where bits of the file are
/// altered. Runs of one chain share a worker.
[[nodiscard]] std::vector<std::vector<RunKey>> own_canary_chains(const record::CampaignSpec& spec,
                                                                 const record::Arm& arm);

/// Fills in faults and recovery of a canary of one of these chains. False for all other strata.
[[nodiscard]] bool expand_own_canary(const record::CampaignSpec& spec, const record::Arm& arm,
                                     const std::string& stratum, record::TrialSpec& run);

}  // namespace bitrift::campaign
