#include "campaign/status.h"

#include <algorithm>
#include <fstream>

#include <fcntl.h>

#include "campaign/folder.h"
#include "campaign/journal.h"
#include "campaign/plan.h"
#include "core/error.h"

namespace bitrift::campaign {
namespace {

bool is_held(const Layout& layout) {
  if (!std::filesystem::exists(layout.lock())) return false;
  try {
    lock_exclusive(open_file(layout.lock(), O_RDONLY), layout.lock());
    return false;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::busy) throw;
    return true;
  }
}

std::size_t count_lines(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::size_t count = 0;
  for (std::string line; std::getline(file, line);) ++count;
  return count;
}

ArmStatus status_of(const std::string& arm, const Plan& plan, const JournalRows& rows) {
  const auto done = [&](const RunKey& key) { return rows.find(key.id) != nullptr; };
  ArmStatus status;
  status.arm = arm;
  for (const auto& chain : plan.preparation(arm)) {
    status.to_prepare += chain.size();
    status.prepared += static_cast<std::size_t>(std::count_if(chain.begin(), chain.end(), done));
  }
  const auto trials = plan.trials(arm);
  status.planned = trials.size();
  status.trials = static_cast<std::size_t>(std::count_if(trials.begin(), trials.end(), done));
  return status;
}

}  // namespace

bool Status::complete() const noexcept {
  const bool decided = !sampling || (!rounds.empty() && !rounds.back().stop.empty());
  return has_base && decided && std::all_of(arms.begin(), arms.end(), [](const ArmStatus& arm) {
           return arm.prepared == arm.to_prepare && arm.trials == arm.planned;
         });
}

Status read_status(const std::filesystem::path& folder) {
  const Layout layout{folder};
  const StoredCampaign stored = read_stored_campaign(layout);
  Status status;
  status.name = stored.spec.name;
  status.running = is_held(layout);
  status.has_base = stored.has_bases();
  status.drills = to_json(stored.drills).get<std::vector<std::string>>();
  status.incidents = count_lines(layout.incidents());
  if (!status.has_base) return status;
  const Bases bases = open_bases(layout, stored.spec);
  Plan plan(stored.spec, bases);
  status.sampling = stored.spec.sampling;
  status.rounds = read_rounds(layout);
  for (std::size_t i = 1; i < status.rounds.size(); ++i) plan.add_round(status.rounds[i]);
  const JournalRows rows =
      std::filesystem::exists(layout.journal()) ? read_journal(layout.journal()) : JournalRows();
  status.retracted = rows.retracted();
  for (const record::Arm& arm : stored.spec.arms) status.arms.push_back(status_of(arm.name, plan, rows));
  return status;
}

record::Json to_json(const Status& status) {
  record::Json arms = record::Json::array();
  for (const ArmStatus& arm : status.arms) {
    arms.push_back({{"arm", arm.arm},
                    {"prepared", arm.prepared},
                    {"to_prepare", arm.to_prepare},
                    {"trials", arm.trials},
                    {"planned", arm.planned}});
  }
  record::Json value = {{"name", status.name},
                        {"running", status.running},
                        {"has_base", status.has_base},
                        {"drills", status.drills},
                        {"arms", arms},
                        {"incidents", status.incidents},
                        {"retracted", status.retracted},
                        {"complete", status.complete()}};
  if (status.sampling && !status.rounds.empty())
    value["sampling"] = record::sampling_state(status.sampling.value(), status.rounds.back());
  return value;
}

}  // namespace bitrift::campaign
