#include "campaign/driver/process_landing.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

#include <signal.h>

namespace bitrift::campaign {
namespace {

using record::ProcessFault;

// Whether a text speaks of "rank 2", and not of "rank 21".
bool names_rank(const std::string& text, int rank) {
  const std::string name = "rank " + std::to_string(rank);
  for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const auto behind = at + name.size();
    if (behind == text.size() || std::isdigit(static_cast<unsigned char>(text[behind])) == 0) return true;
  }
  return false;
}

bool lost_by(const record::Failure& failure, record::Ending how) {
  switch (how) {
    case record::Ending::kill:
      return failure.signal == SIGKILL;
    case record::Ending::stop:
      return failure.reason == record::FailureReason::hang;
    case record::Ending::exit:
      break;
  }
  return failure.reason == record::FailureReason::exception;
}

}  // namespace

bool processes_failed(const Ran& ran) {
  const std::vector<ProcessFault>& faults = ran.spec.faults.processes();
  if (ran.failure) {
    return std::any_of(faults.begin(), faults.end(), [&](const ProcessFault& fault) {
      return lost_by(*ran.failure, fault.how) || names_rank(ran.failure->detail, fault.rank);
    });
  }
  std::set<int> lost;
  for (const record::Recovery& recovery : ran.result->recoveries)
    lost.insert(recovery.failed.begin(), recovery.failed.end());
  const auto is_lost = [&](const ProcessFault& fault) { return lost.contains(fault.rank); };
  if (ran.result->status != record::RunStatus::unrecovered)
    return std::all_of(faults.begin(), faults.end(), is_lost);
  return std::any_of(faults.begin(), faults.end(), [&](const ProcessFault& fault) {
    return is_lost(fault) || names_rank(ran.result->detail, fault.rank);
  });
}

}  // namespace bitrift::campaign
