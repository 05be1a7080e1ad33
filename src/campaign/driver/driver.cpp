#include "campaign/driver/driver.h"

#include <algorithm>
#include <array>

#include <unistd.h>

#include "campaign/plan/ends.h"
#include "campaign/worker/private_copy.h"
#include "core/error.h"
#include "core/log.h"
#include "core/process/host.h"
#include "design/kind/run/run_landing.h"
#include "record/json/json_diff.h"
#include "record/provenance.h"

namespace bitrift::campaign {
namespace {

using record::Json;
using record::TrialKind;

std::string list_of(const std::vector<std::string>& names) {
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

// The faults that a run met: altered messages and numbers, and ranks or links that failed.
std::string met_by(const record::RunResult& result) {
  std::vector<std::string> met;
  for (const record::Recovery& recovery : result.recoveries) {
    if (!recovery.failed.empty()) met.push_back(fmt::format("rank {}", fmt::join(recovery.failed, ", ")));
  }
  for (const record::AlteredMessage& altered : result.altered_messages)
    met.push_back(described(altered.fault));
  for (const record::AlteredValue& altered : result.altered_values) met.push_back(described(altered.fault));
  for (const record::LinkReport& failed : result.failed_links) met.push_back(described(failed.link));
  return list_of(met);
}

// The rest of the row of a run that met its faults while it ran, with a file in which nothing was altered.
record::TrialRecord row_on_the_way(const Ran& ran, record::TrialRecord row) {
  const std::string id = row.id.text();
  if (ran.result && !ran.result->changed_tensors.empty()) {
    throw Misbehaviour(fmt::format("{}: nothing was altered, but {} differs from the base when loaded", id,
                                   list_of(ran.result->changed_tensors)));
  }
  row.landed = design::landed(row.faults, {ran.result, ran.failure});
  if (row.landed || !ran.result || row.kind == TrialKind::canary) return row;
  throw Misbehaviour(fmt::format("{}: the fault was not reached: asked for {}, met {}", id,
                                 described(row.faults, row.faults.size()), met_by(*ran.result)));
}

// If a script does not read the altered tensors, every such fault would be masked.
void refuse_unreached(const record::TrialId& id, const record::RunResult& result) {
  if (!result.unreached_tensors || result.unreached_tensors->empty()) return;
  throw Misbehaviour(
      fmt::format("{}: the fault in {} does not reach the loaded state: what load() puts into `state` equals "
                  "that of the base; let load() read it and state() return it, or take it out of strata",
                  id.text(), list_of(*result.unreached_tensors)));
}

}  // namespace

record::TrialRecord row_of(const Ran& ran, std::uint64_t stratum_bits, const Drills& drills) {
  record::TrialRecord row;
  static_cast<record::PlannedRun&>(row) = ran.spec;
  row.stratum_bits = stratum_bits;
  row.result = ran.result;
  row.failure = ran.failure;
  row.started = ran.started;
  row.host = host_name();
  row.seconds = ran.seconds;
  row.attempts = ran.attempts;
  if (row.result) row.result->unreached_tensors.reset();  // rows say whether the fault landed
  if (!row.faults.of_bits()) return row_on_the_way(ran, std::move(row));
  const std::vector<std::string>& altered = ran.altered;
  const auto is_byte = [](const auto& site) { return record::names_byte(site.plane, site.structure); };
  const auto& sites = row.faults.bits().sites;
  const bool values =
      row.plane != record::Plane::metadata && std::none_of(sites.begin(), sites.end(), is_byte);
  row.no_change = row.kind == TrialKind::trial && altered.empty() && values;
  // For a run without a result only one fact is known: the file was altered, and read back. Nobody can say
  // what altered bytes in a file's structures or in filtered chunks do to tensors; only that they were
  // altered was read back.
  row.landed = ran.result && values ? ran.result->changed_tensors == altered
                                    : !drills.blind() || (values && altered.empty());
  if (row.landed && ran.result) refuse_unreached(row.id, *ran.result);
  const bool refused = ran.result && ran.result->status == record::RunStatus::rejected;
  if (row.landed || refused || drills.blind() || row.kind == TrialKind::canary) return row;
  throw Misbehaviour(
      fmt::format("{}: the fault did not land: altered in the file {}, different when loaded {}",
                  row.id.text(), list_of(altered), list_of(ran.result->changed_tensors)));
}

Driver::Driver(Folder& folder, const Drills& drills, const Plan& plan, Ledger& ledger, Shard* shard,
               Progress& progress)
    : folder_(folder),
      drills_(drills),
      plan_(plan),
      ledger_(ledger),
      shard_(shard),
      progress_(progress),
      controls_(plan.spec(), ledger.effective()),
      incident_file_(shard == nullptr ? folder.layout().incidents() : shard->place().incidents()) {
  for (const auto& [stem, digest] : folder.base_digests()) {
    watches_.emplace_back(folder.layout().base(stem), digest);
  }
  if (shard_ == nullptr) return;
  for (std::size_t arm = 0; arm < plan_.spec().arms.size(); ++arm) {
    for (int order = 0; order < plan_.spec().orders; ++order) {
      if (const auto golden = shard_->golden(arm, order))
        check_golden(arm, order, golden->result, "the golden run of all shards");
    }
  }
}

Driver::~Driver() { progress_.show(nullptr); }

ShardId Driver::shard() const {
  if (shard_ == nullptr) return {};
  return other_ == nullptr ? shard_->id() : other_->id();
}

void Driver::finish(const Stage& stage) {
  if (shard_ == nullptr) return;
  if (other_ != nullptr) return shard_->finish(stage, *other_);
  shard_->finish(stage, ledger_.journal());
}

std::unique_ptr<StandIn> Driver::meet(const Stage& stage) {
  if (shard_ == nullptr) return nullptr;
  auto other = shard_->meet(stage, [this] { on_tick(); });
  if (!other && rates_) show_rates();  // the rows of other shards close the gaps between those of this one
  return other;
}

void Driver::stand_in(StandIn* other) {
  if (other == nullptr && other_ != nullptr && other_->wanted()) shard_->give_back(*other_);
  other_ = other;
}

std::vector<Job> Driver::preparation_jobs() const {
  std::vector<Job> jobs;
  for (std::size_t arm = 0; arm < plan_.spec().arms.size(); ++arm) {
    for (auto& chain : plan_.preparation(arm_name(arm))) {
      // A chain runs as a whole: its last control shows something only after its canaries. Those of a driver
      // that stands in have shown that already.
      const auto missing = [&](const RunKey& key) {
        return takes(shard(), key) && (other_ == nullptr || in_turn(key.kind)) &&
               ledger().find_own(key.id) == nullptr;
      };
      if (std::any_of(chain.begin(), chain.end(), missing)) jobs.push_back({arm, std::move(chain), 0, {}});
    }
  }
  return jobs;
}

std::vector<Job> Driver::trial_jobs() const {
  std::vector<Job> jobs;
  for (RunKey& key : trials_of(shard(), plan_.rounds().back())) {
    const std::size_t arm = plan_.spec().arm_index(key.id.arm);
    if (ledger().find_own(key.id) == nullptr) jobs.push_back({arm, {std::move(key)}, 0, {}});
  }
  return jobs;
}

record::TrialSpec Driver::expand(const RunKey& key) {
  check_bases();
  record::TrialSpec spec;
  try {
    spec = plan_.expand(key);
  } catch (const Error&) {
    check_bases();  // a base that went away since the check says what to do
    throw;
  }
  drills_.plant(spec);
  // A leak that occurs again in the repetition would never end.
  if (spec.drill == record::Drill::leak && !leaked_.insert(key.id.text()).second) spec.drill.reset();
  return spec;
}

double Driver::deadline_s(std::size_t arm) { return controls_.deadline_s(arm); }

bool Driver::golden_known(std::size_t arm, int order) { return controls_.golden_known(arm, order); }

void Driver::on_ready(std::size_t arm, const record::Ready& ready) {
  check_bases();  // the worker and its private copy have just read it
  // Guards that remember earlier steps have state of their own.
  const design::Arm& of = plan_.spec().arms[arm];
  const auto [known, first] = base_digests_.emplace(
      std::pair(of.file, of.guards ? record::to_json(*of.guards).dump() : ""), ready.base_digest);
  if (known->second != ready.base_digest) {
    throw Misbehaviour(
        fmt::format("arm '{}': the base was loaded with state digest {}, by earlier workers with {}",
                    arm_name(arm), ready.base_digest, known->second));
  }
  if (shard_ != nullptr) return shard_->note_trainer(ready.environment);
  folder_.note_trainer(ready.environment);
}

std::optional<std::string> Driver::on_check(std::size_t arm, int order, const record::RunResult& result) {
  try {
    check_golden(arm, order, result, "check of a worker");
  } catch (const Misbehaviour& problem) {
    return problem.what();
  }
  return std::nullopt;
}

void Driver::on_doubt(std::size_t arm, const std::vector<RunKey>& runs, const std::string& why) {
  std::vector<std::string> ids;
  ids.reserve(runs.size());
  for (const RunKey& run : runs) ids.push_back(run.id.text());
  spdlog::warn(
      "arm '{}': a worker's no-flip run no longer equals the golden run; {} rows since its last check are "
      "retracted and run again: {}",
      arm_name(arm), ids.size(), why);
  ledger().journal().retract(ids, why);
  progress_.take_back(ids.size());
  for (const RunKey& run : runs) {
    if (rates_) rates_->remove(run.id);
  }
}

void Driver::check_bases() {
  for (BaseWatch& watch : watches_) watch.check();
}

void Driver::show_rates() {
  const auto rows = ledger_.effective();
  rates_.emplace(plan_.spec(), analyze::controls_of(rows, analyze::judging_of(plan_.spec())));
  rates_->set_rounds(plan_.rounds());
  for (const record::TrialRecord& row : rows) rates_->add(row);
  progress_.show(&*rates_);
}

void Driver::show_round() {
  if (rates_) rates_->set_rounds(plan_.rounds());
}

// A shard's first no-flip run of an order becomes the golden run of all, or must equal the one that is.
void Driver::check_golden(std::size_t arm, int order, const record::RunResult& result,
                          const std::string& what) {
  try {
    controls_.check(arm, order, result, what);
    if (shard_ == nullptr || !agreed_.insert({arm, order}).second) return;
    controls_.check(arm, order, shard_->agree(arm, order, result).result, "the golden run of all shards");
  } catch (const Misbehaviour& problem) {
    const std::string origins = shard_ == nullptr ? "" : shard_->origins(arm, order);
    throw Misbehaviour(problem.what() + origins + folder_.environment_hint());
  }
}

void Driver::check_clean(const Ran& ran) {
  const std::string id = ran.spec.id.text();
  if (ran.failure) {
    throw Misbehaviour(fmt::format("{}: the clean run failed twice: {} {}", id, name_of(ran.failure->reason),
                                   ran.failure->detail));
  }
  if (is_golden_run({ran.spec.kind, ran.spec.id})) {
    const std::size_t arm = plan_.spec().arm_index(ran.spec.id.arm);
    check_golden(arm, ran.spec.order, *ran.result, id);
    controls_.took(arm, ran.seconds);
  }
}

void Driver::on_run(const Ran& ran) {
  const TrialKind kind = ran.spec.kind;
  if (kind == TrialKind::control || kind == TrialKind::envelope || kind == TrialKind::held_out)
    check_clean(ran);
  const record::TrialRecord row = row_of(ran, plan_.stratum_bits({ran.spec.kind, ran.spec.id}), drills_);
  if (const record::TrialRecord* known = ledger().find(row.id)) {
    if (const auto difference = journal_difference({*known}, {row})) {
      throw Misbehaviour("a run that was repeated differs from its row: " + *difference +
                         folder_.environment_hint());
    }
    if (ledger().find_own(row.id) != nullptr) return;
  }
  ledger().journal().append(row);
  if (rates_) rates_->add(row);
  progress_.advance();
}

void Driver::on_incident(const Incident& incident) {
  ++incidents_;
  const Json line = {{"time", record::utc_now()},
                     {"phase", name_of(incident.phase)},
                     {"id", incident.id},
                     {"arm", incident.arm},
                     {"worker", incident.worker},
                     {"pid", incident.pid},
                     {"failure", to_json(incident.failure)},
                     {"attempt", incident.attempt},
                     {"host", host_name()}};
  incident_file_.append(line.dump(-1, ' ', false, Json::error_handler_t::replace));
  progress_.incident();
}

void Driver::on_slow_start(const std::string& text) { progress_.note(text); }

void Driver::on_tick() {
  ledger_.journal().sync_if_due();
  if (other_ != nullptr) other_->ledger().journal().sync_if_due();
  incident_file_.sync_if_due();
  check_bases();
  progress_.tick();
  InterruptGuard::check();
  if (shard_ != nullptr) shard_->check_held();
  if (other_ != nullptr && other_->lost()) {
    fail(ErrorCode::busy,
         "shard {}: this process, which stood in for it, sent no heartbeat for too long, and another process "
         "has replaced it; no row is lost",
         other_->id().text());
  }
  if (end_ && std::chrono::steady_clock::now() >= *end_) throw OutOfTime();
}

}  // namespace bitrift::campaign
