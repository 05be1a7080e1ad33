#include "train/run/recovery_run.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/log.h"
#include "mpi/survivors.h"
#include "record/fault/death_note.h"
#include "train/run/state_moves.h"

namespace bitrift::train {
namespace {

using record::Json;
using record::RecoveryPoint;
using record::StateSource;

// Adds the time since the last lap to one part of the total.
class Laps {
 public:
  void add_to(double& part) {
    const double now = record::monotonic_seconds();
    part += now - last_;
    last_ = now;
  }
  [[nodiscard]] double last() const noexcept { return last_; }

 private:
  double last_ = record::monotonic_seconds();
};

// What all ranks know about each other after a roll call.
struct Roll {
  std::vector<Report> reports;
  ReplicaMap before{1, 1};
  std::vector<Member> lost;
  bool wants_golden = false;
};

class RecoveryRun {
 public:
  RecoveryRun(TrainerState& state, Snapshots& snapshots, const Interrupted& interrupted)
      : state_(state),
        snapshots_(snapshots),
        interrupted_(interrupted),
        ledger_(interrupted.ledger),
        faults_(state.kill_point.faults()),
        before_(state.map),
        mesh_before_(state.mesh_with_first_links()),
        joined_(state.team.is_newcomer()),
        joins_(joined_) {
    if (state.team.working()) {
      old_rank_ = state.team.active().rank();
      worked_ = state.team.active();
      live_ = HeldState{interrupted.ledger->at, state.layout().stage(), state.layout().stages(),
                        state.layout().replica()};
    }
    knows_before_ = !state.team.is_newcomer();
    members_before_ = state.team.members();
  }

  Recovered run() {
    state_.kill_point.reach(RecoveryPoint::noticed);
    while (!attempt()) {
    }
    return std::move(result_);
  }

 private:
  record::RecoveryTimes& times() { return result_.record.times; }
  Team& team() { return state_.team; }

  // Whether all living ranks of the group completed the work. Every rank asks this after the same parts of an
  // attempt, whatever it met in them: if one rank began again alone, the others would wait, or take its
  // agreement for another one.
  template <typename Work>
  bool together(const Work& work) {
    const mpi::Communicator group = team().everyone();
    bool well = true;
    try {
      work();
    } catch (const mpi::RankFailed& failed) {
      spdlog::debug("recovery: {}", failed.what());
      well = false;
      mpi::revoke(group);
      state_.revoke_work();
    }
    return mpi::all_agree(group, well);
  }

  // False: a rank died in the meantime, and all begin again.
  bool attempt() {
    // A process that joins enters in the middle of an attempt.
    if (!std::exchange(joins_, false)) {
      state_.revoke_work();
      // Other ranks may be in stand_together(), and must learn of this.
      if (worked_ && !state_.asked_together()) (void)mpi::all_agree(*worked_, false);
      worked_.reset();
      state_.stop_work();
      laps_.add_to(times().revoke);
      ++attempts_;
      team().replace(mpi::shrink(team().everyone()));
      laps_.add_to(times().shrink);
      if (!together([&] {
            state_.kill_point.reach(RecoveryPoint::shrunk);
            make_plan();
          }))
        return false;
    } else if (!together([&] { make_plan(); })) {
      return false;
    }
    while (plan_.refusal.empty() && plan_.missing > 0) {
      if (!add_process()) return false;
    }
    before_ = roll_.before;
    knows_before_ = true;
    // A rank that takes over a dead rank's work must not meet the dead rank's fault.
    spend_faults(faults_);
    fence(roll_.lost);
    if (!plan_.refusal.empty()) {
      give_up();
      return true;
    }
    if (!together([&] { carry_out(); })) return false;
    laps_.add_to(times().agree);
    conclude(std::move(agreed_ledger_));
    return true;
  }

  // From those that were armed when the recovery began: a second attempt knows of more deaths.
  void spend_faults(const std::vector<record::ProcessFault>& armed) {
    state_.kill_point.arm(armed, interrupted_.death_note);
    for (const int rank : plan_.failed) state_.kill_point.spend(roll_.before.seats(rank), furthest(roll_));
  }

  void make_plan() {
    roll_ = call_roll();
    for (const Report& report : roll_.reports) attempts_ = std::max(attempts_, report.attempts);
    if (members_before_.empty()) {
      plan_ = {};
      plan_.refusal = "no process is left that knows the run";
      return;
    }
    plan_ = plan_recovery(state_.recovery, roll_.before, roll_.reports, mesh_before_, state_.parallel.stages);
    laps_.add_to(times().agree);
  }

  // The ranks that spawn agree before they use the larger group: a process that failed to join it could not
  // follow. One at a time: if one of two processes that were spawned together has died, Open MPI 5.0.11 hangs
  // in the next MPI_Comm_spawn.
  bool add_process() {
    const mpi::Communicator group = team().everyone();
    std::optional<mpi::Communicator> larger;
    std::string why = "another rank says why";
    const bool alive = together([&] {
      try {
        larger = mpi::spawn(group, interrupted_.command);
      } catch (const mpi::RankFailed&) {
        throw;
      } catch (const Error& error) {
        why = error.what();
      }
    });
    spawns_ = mpi::all_agree(group, !alive || larger);
    laps_.add_to(times().respawn);
    if (larger && !(alive && spawns_)) mpi::revoke(*larger);
    if (!alive) return false;
    if (spawns_) {
      team().replace(*larger);
    } else if (!plan_.expands) {
      plan_.refusal = "no process could be started in its place: " + why;
      return true;
    } else if (group.rank() == 0) {
      spdlog::warn("the run cannot expand now, and continues with fewer ranks: {}", why);
    }
    return together([&] { make_plan(); });
  }

  void give_up() {
    const std::string failed = plan_.failed_seats.empty()
                                   ? "all ranks"
                                   : fmt::format("rank {}", fmt::join(plan_.failed_seats, " and "));
    result_.refusal = fmt::format("{} failed, and the run cannot continue: {}", failed, plan_.refusal);
    result_.record.kind = state_.recovery.kind;
    result_.record.failed = plan_.failed_seats;
  }

  Roll call_roll() {
    Report mine{.rank = old_rank_,
                .live = live_,
                .joined = joined_,
                .prepared = state_.prepared(),
                .noticed = noticed_,
                .attempts = attempts_,
                .asks = interrupted_.asks,
                .refused = !spawns_};
    mine.reached = interrupted_.ledger ? interrupted_.ledger->at.commits : 0;
    mine.snapshots = snapshots_.held();
    mine.file = interrupted_.file_position;
    Json says = {{"report", mine}, {"golden", state_.golden.contains(interrupted_.order)}};
    if (knows_before_) {
      says["before"] = {before_.replicas(), before_.stages(), before_.hosts()};
      for (const Member& member : members_before_)
        says["members"].push_back({member.id, member.host, member.pid});
    }
    Roll roll;
    std::vector<Member> known;
    for (const Json& said : team().roll_call(says)) {
      roll.reports.push_back(said.at("report").get<Report>());
      roll.wants_golden = roll.wants_golden || !said.at("golden").get<bool>();
      if (!said.contains("before") || !known.empty()) continue;
      const Json& before = said["before"];
      roll.before = ReplicaMap(before.at(0), before.at(1), before.at(2).get<std::vector<int>>());
      for (const Json& member : said.at("members"))
        known.push_back({member.at(0), member.at(1), member.at(2)});
    }
    std::set<int> alive;
    for (const Member& member : team().members()) alive.insert(member.id);
    for (const Member& member : known) {
      if (!alive.contains(member.id)) roll.lost.push_back(member);
    }
    members_before_ = known;
    return roll;
  }

  void carry_out() {
    const RecoveryPlan& plan = plan_;
    const Roll& roll = roll_;
    team().set_workers(plan.workers);
    const int me = team().everyone().rank();
    Ledger ledger = ledger_from_text(shared_ledger(plan, roll));
    state_.costs = ledger.costs;
    // Before the session is given other layers: a rank that is one decision behind follows, a rank that is
    // ahead goes back.
    if (!plan.rolls_back) catch_up(plan, ledger);
    state_.kill_point.reach(RecoveryPoint::state);
    laps_.add_to(times().shrink);
    StateMoves moves(state_, snapshots_, plan, roll.before.stages());
    // A state that is being replaced is invalid until all of the new one is there.
    const int rank = team().working() ? team().active().rank() : -1;
    const bool keeps = !plan.rolls_back && rank >= 0 && plan.givers[static_cast<std::size_t>(rank)] == me;
    if (rank >= 0 && !keeps) live_.reset();
    if (team().working()) state_.spread(plan.map, plan.mesh);
    laps_.add_to(times().shrink);
    moves.run(ledger);
    if (team().working()) {
      bytes_moved_ = total_bytes(moves.bytes());
      check_same_place();
    }
    if (!plan.rolls_back && team().working()) {
      ledger_ = ledger;
      live_ = HeldState{plan.target, state_.layout().stage(), state_.layout().stages(),
                        state_.layout().replica()};
    }
    laps_.add_to(times().state);
    state_.kill_point.reach(RecoveryPoint::resumed);
    share_times(plan);
    agreed_ledger_ = std::move(ledger);
  }

  // Sends the plan's leader's ledger to all. A rollback goes back to the ledger of the snapshot.
  std::string shared_ledger(const RecoveryPlan& plan, const Roll& roll) {
    std::string text;
    if (team().everyone().rank() == plan.leader) {
      Ledger mine;
      if (plan.rolls_back && plan.state == StateSource::buddy) {
        mine = ledger_from_text(snapshots_.find(plan.target, 0, roll.before.stages(), 0)->ledger);
        keep_what_happened(mine);
      } else if (plan.rolls_back) {
        mine = ledger_from_text(interrupted_.file_ledger);
        keep_what_happened(mine);
      } else {
        mine = *ledger_;
        mine.shared = shared_state(state_.session());
      }
      const auto golden = state_.golden.find(interrupted_.order);
      if (roll.wants_golden && golden != state_.golden.end()) mine.golden = golden->second;
      text = to_text(mine);
    }
    team().everyone().broadcast(text, plan.leader);
    return text;
  }

  // A rollback undoes steps, but neither failures nor recoveries.
  void keep_what_happened(Ledger& ledger) const {
    ledger.faults = faults_;
    if (!interrupted_.ledger) return;
    ledger.result.recoveries = interrupted_.ledger->result.recoveries;
    ledger.result.failed_links = interrupted_.ledger->result.failed_links;
  }

  static std::int64_t furthest(const Roll& roll) {
    std::int64_t steps = 0;
    for (const Report& report : roll.reports) steps = std::max(steps, report.reached);
    return steps;
  }

  // The times are those of a rank that took part from the first moment on.
  void share_times(const RecoveryPlan& plan) {
    const auto died = record::last_death_note(interrupted_.death_note, noticed_);
    if (died && (plan.interrupted || !plan.failed.empty()))
      times().detect = std::max(0.0, noticed_ - died->time);
    std::string text = record::to_json(times()).dump();
    team().everyone().broadcast(text, plan.leader);
    Json::parse(text).get_to(result_.record.times);
  }

  void catch_up(const RecoveryPlan& plan, const Ledger& ledger) {
    if (!live_) return;
    if (live_->at.commits == plan.target.commits) {
      state_.undo_step();
    } else if (state_.prepared()) {
      state_.apply(ledger.decision);
      live_->at = plan.target;
      ledger_ = ledger;
    }
  }

  // A rank at another batch would wait for the others for ever.
  void check_same_place() {
    const Progress& mine = state_.session().progress;
    const std::array<std::int64_t, 3> place = {mine.epoch, mine.step, mine.cursor};
    const auto size = static_cast<std::size_t>(team().active().size());
    std::vector<std::array<std::int64_t, 3>> all(size);
    team().active().allgather_equal(place.data(), sizeof place, all.data());
    for (std::size_t rank = 0; rank < size; ++rank) {
      if (all[rank] == all[0]) continue;
      result_.refusal =
          fmt::format("rank {} is at epoch {}, step {}, sample {} after the recovery, rank 0 at {}, {}, {}",
                      rank, all[rank][0], all[rank][1], all[rank][2], all[0][0], all[0][1], all[0][2]);
      return;
    }
  }

  void conclude(Ledger ledger) {
    const RecoveryPlan& plan = plan_;
    const Roll& roll = roll_;
    const std::int64_t reached = furthest(roll);
    state_.map = plan.map;
    state_.mesh = plan.mesh;
    if (state_.recovery.batch == record::BatchRule::smaller)
      resize(ledger.batch_size / roll.before.replicas() * plan.map.replicas());
    record::Recovery& record = result_.record;
    record.kind = state_.recovery.kind;
    record.state = plan.state;
    record.failed = plan.failed_seats;
    record.ranks_before = roll.before.ranks();
    record.ranks_after = plan.map.ranks();
    record.step = plan.target.commits;
    record.steps_lost = reached - plan.target.commits;
    const bool in_step = plan.target.next != Next::save && plan.target.next != Next::evaluate;
    const bool redoes = plan.interrupted && (in_step || plan.rolls_back);
    record.steps_redone = record.steps_lost + (redoes ? 1 : 0);
    result_.works = team().working();
    record.bytes_moved = bytes_moved_;
    spend_faults(ledger.faults);
    ledger.faults = state_.kill_point.faults();
    if (ledger.golden) state_.golden.insert_or_assign(ledger.terms.order, *ledger.golden);
    state_.regrouped = true;
    result_.ledger = std::move(ledger);
  }

  // The batch loses the part of the replicas that were dropped.
  void resize(int batch_size) {
    if (!team().working() || batch_size == state_.spec.batch_size) return;
    const Progress& progress = state_.session().progress;
    state_.spec.resized.push_back({state_.spec.batch_size, progress.epoch, progress.cursor});
    state_.spec.batch_size = batch_size;
  }

  std::uint64_t total_bytes(std::uint64_t mine) {
    std::vector<std::uint64_t> all(static_cast<std::size_t>(team().active().size()));
    team().active().allgather_equal(&mine, sizeof mine, all.data());
    std::uint64_t sum = 0;
    for (const std::uint64_t one : all) sum += one;
    return sum;
  }

  TrainerState& state_;
  Snapshots& snapshots_;
  const Interrupted& interrupted_;
  std::optional<Ledger> ledger_;
  const std::vector<record::ProcessFault> faults_;  // armed when this recovery began
  ReplicaMap before_;
  // A link that fails in the run does so at the start of a step, and again if ranks go back to before it.
  const std::optional<record::MeshSpec> mesh_before_;
  const bool joined_;  // this process was spawned for this recovery
  bool joins_;         // the same, and it has not taken part in any attempt
  bool knows_before_ = false;
  bool spawns_ = true;  // no attempt to start a process has failed
  int attempts_ = 0;    // the most that any rank of the last roll call knew of
  int old_rank_ = -1;
  std::optional<HeldState> live_;
  std::vector<Member> members_before_;
  double noticed_ = record::monotonic_seconds();
  std::uint64_t bytes_moved_ = 0;
  std::optional<mpi::Communicator> worked_;  // the group that worked until now
  Laps laps_;
  Roll roll_;
  RecoveryPlan plan_;
  Ledger agreed_ledger_;
  Recovered result_;
};

}  // namespace

Recovered recover(TrainerState& state, Snapshots& snapshots, const Interrupted& interrupted) {
  return RecoveryRun(state, snapshots, interrupted).run();
}

}  // namespace bitrift::train
