#include "campaign/commands/status.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include <fcntl.h>

#include "campaign/folder/folder.h"
#include "campaign/journal/journal.h"
#include "campaign/plan/plan.h"
#include "campaign/shard/lease.h"
#include "campaign/shard/shard_id.h"
#include "campaign/shard/shard_journals.h"
#include "campaign/shard/shards.h"
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

// Finds who works, without asking them.
void add_shards(Status& status, const Layout& layout, int shards, const ShardJournals& journals) {
  for (int index = 1; index <= shards; ++index) {
    const ShardId id{index, shards};
    const auto folder = shard_folder(layout.shards(), index, shards);
    ShardStatus one{id.text(), "never started", last_lease(folder), 0, 0};
    if (one.starts > 0) {
      const LeaseHolder holder = read_lease(numbered_folder(folder, one.starts));
      const bool dead = holder.here && !holder.lives;
      const std::string who =
          (holder.of.empty() ? "" : "shard " + holder.of + " stands in, ") + holder.text();
      one.state = holder.over ? "ended" + (holder.end.empty() ? "" : ": " + holder.end)
                  : dead      ? "died: " + who
                              : "running: " + who;
      status.running = status.running || (!holder.over && !dead);
    }
    status.shards.push_back(one);
  }
  for (const auto& one : journals.starts()) {
    status.incidents += count_lines(DriverPlace{one->tail.path().parent_path()}.incidents());
  }
}

void count_shares(Status& status, const Layout& layout, const Plan& plan, const ShardJournals& journals) {
  const auto shards = static_cast<int>(status.shards.size());
  const std::string preparation = preparation_stage(plan, shards).name;
  for (int index = 1; index <= shards; ++index) {
    const ShardId id{index, shards};
    std::vector<RunKey> share = preparation_of(id, plan);
    for (const record::Round& round : plan.rounds()) {
      const auto trials = trials_of(id, round);
      share.insert(share.end(), trials.begin(), trials.end());
    }
    // A stand-in leaves out the runs that would examine the machine of the shard's own driver.
    const bool prepared = is_marked(layout, id, preparation);
    ShardStatus& one = status.shards[static_cast<std::size_t>(index - 1)];
    one.planned = share.size();
    one.done = static_cast<std::size_t>(std::count_if(share.begin(), share.end(), [&](const RunKey& key) {
      return (prepared && !in_turn(key.kind)) || journals.find_in(index, key.id) != nullptr;
    }));
  }
}

}  // namespace

bool Status::complete() const noexcept {
  return has_base && decided && std::all_of(arms.begin(), arms.end(), [](const ArmStatus& arm) {
           return arm.prepared == arm.to_prepare && arm.trials == arm.planned;
         });
}

Status read_status(const std::filesystem::path& folder) {
  const Layout layout{folder};
  const StoredCampaign stored = read_stored_campaign(layout);
  Status status;
  status.name = stored.spec.name;
  status.running = stored.shards == 0 && is_held(layout);
  status.has_base = stored.has_bases();
  status.drills = to_json(stored.drills).get<std::vector<std::string>>();
  std::optional<ShardJournals> journals;
  if (stored.shards > 0) {
    journals.emplace(layout.shards(), stored.shards);
    journals->refresh();
    journals->refuse_damage();
    add_shards(status, layout, stored.shards, *journals);
  } else {
    status.incidents = count_lines(layout.incidents());
  }
  if (!status.has_base) return status;
  const Bases bases = open_bases(layout, stored.spec);
  Plan plan(stored.spec, bases);
  status.sampling = stored.spec.sampling;
  status.rounds = read_rounds(layout);
  plan.add_known(status.rounds);
  status.decided = plan.ended();
  JournalRows rows;
  if (journals) {
    for (const auto& one : journals->starts()) {
      for (auto& row : one->tail.rows().effective()) rows.add(std::move(row));
      status.retracted += one->tail.rows().retracted();
    }
    count_shares(status, layout, plan, *journals);
  } else if (std::filesystem::exists(layout.journal())) {
    rows = read_journal(layout.journal());
    status.retracted = rows.retracted();
  }
  for (const design::Arm& arm : stored.spec.arms) status.arms.push_back(status_of(arm.name, plan, rows));
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
  for (const ShardStatus& one : status.shards) {
    value["shards"].push_back({{"shard", one.shard},
                               {"state", one.state},
                               {"starts", one.starts},
                               {"done", one.done},
                               {"planned", one.planned}});
  }
  if (status.sampling && !status.rounds.empty())
    value["sampling"] = record::sampling_state(status.sampling.value(), status.rounds.back());
  return value;
}

}  // namespace bitrift::campaign
