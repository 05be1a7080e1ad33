#include "strike_options.h"

#include <algorithm>

#include "core/error.h"
#include "record/fault/compute_map.h"
#include "train/describe/computations.h"

namespace bitrift::cli {

using record::ComputeFault;

void add_strike_option(CLI::App* command, std::vector<std::string>& strikes) {
  command->add_option(
      "--strike", strikes,
      "SITE:TENSOR@STEP:REPLICA.MICRO_BATCH.ELEMENT.BIT: this bit of a number flips while this step of the "
      "run (from 1) computes it. SITE and TENSOR: activation or gradient and a layer, or weight_gradient, "
      "update or parameter (itself, before the step) and a parameter, such as activation:conv1@5:0.0.17.30. "
      "In the place of BIT, zero, nan and inf set the whole number. +N or +permanent: it strikes in that "
      "many "
      "steps; *N: in that many neighbouring elements (docs/compute-faults.md); repeatable");
}

std::vector<ComputeFault> chosen_strikes(const std::vector<std::string>& strikes,
                                         const record::Parallel& parallel, record::RecoveryKind recovery) {
  std::vector<ComputeFault> faults;
  for (const std::string& text : strikes) {
    ComputeFault fault;
    try {
      fault = record::compute_fault_from_text(text);
    } catch (const Error& error) {
      fail(error.code(), "--strike {}", error.what());
    }
    if (std::ranges::find(faults, fault) != faults.end())
      fail(ErrorCode::bad_input, "--strike {}: given twice; leave one out", text);
    if (fault.site == record::ComputeSite::update && parallel.shard_optimizer) {
      fail(
          ErrorCode::bad_input,
          "--strike {}: with --shard-optimizer a replica updates only a part of the parameters; leave one of "
          "them out",
          text);
    }
    faults.push_back(fault);
  }
  if (!faults.empty() && recovery != record::RecoveryKind::none)
    fail(ErrorCode::bad_input, "--strike cannot be combined with --on-failure {}: a recovery repeats steps",
         name_of(recovery));
  return faults;
}

void refuse_unequal_replicas(const std::vector<ComputeFault>& faults, const record::Parallel& parallel) {
  const auto parting = std::ranges::find_if(faults, &record::parts_replicas, &ComputeFault::site);
  if (parting == faults.end() || parallel.replicas() == 1) return;
  fail(
      ErrorCode::bad_input,
      "--strike {} cannot be combined with --check-replicas: it strikes one replica, which differs from then "
      "on; leave one of them out",
      to_text(*parting));
}

void check_strikes(const std::vector<ComputeFault>& faults, const record::TrainingSpec& spec,
                   const record::Parallel& parallel, const nn::Dataset& data, std::int64_t steps) {
  if (faults.empty()) return;
  const record::ComputeMap map = train::computations_of(spec, parallel, data);
  for (const ComputeFault& fault : faults) {
    try {
      record::check_exists(fault, map);
    } catch (const Error& error) {
      fail(error.code(), "--strike {}", error.what());
    }
    if (fault.step > steps)
      fail(ErrorCode::bad_input, "--strike {}: there is no step {}; the run takes {}", to_text(fault),
           fault.step, steps);
  }
}

}  // namespace bitrift::cli
