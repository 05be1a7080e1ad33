#include "train/recover/recovery_plan.h"

#include <algorithm>
#include <numeric>
#include <set>

#include <fmt/ranges.h>

#include "core/error.h"

namespace bitrift::train {
namespace {

using record::RecoveryKind;
using record::StateSource;

class Planner {
 public:
  Planner(const record::RecoverySpec& spec, const ReplicaMap& before, const std::vector<Report>& reports,
          const std::optional<record::MeshSpec>& mesh, int stages)
      : spec_(spec), before_(before), reports_(reports), stages_(stages > 0 ? stages : before.stages()) {
    plan_.mesh = mesh;
    const auto worked = [](const Report& one) { return one.rank >= 0; };
    const auto asks = [](const Report& one) { return one.rank < 0 || one.asks; };
    const auto refused = [](const Report& one) { return one.refused; };
    plan_.interrupted = std::ranges::none_of(reports, worked) || !std::ranges::all_of(reports, asks);
    plan_.expands =
        !plan_.interrupted && std::ranges::none_of(reports, refused) && attempts() <= most_attempts_to_expand;
  }

  RecoveryPlan run() {
    find_lost();
    if (is_futile()) return std::move(plan_);
    if (!seat_everyone() || plan_.missing > 0) return std::move(plan_);
    find_target();
    const bool live = !wants_rollback() && has_live_state();
    if (live) {
      use_live_state();
    } else if (!use_snapshots() && !use_file()) {
      refuse();
    }
    return std::move(plan_);
  }

 private:
  [[nodiscard]] int count() const { return static_cast<int>(reports_.size()); }
  [[nodiscard]] const Report& report(int who) const { return reports_[static_cast<std::size_t>(who)]; }
  [[nodiscard]] bool recut() const { return plan_.map.stages() != before_.stages(); }

  void find_lost() {
    std::set<int> alive;
    for (const Report& one : reports_) {
      if (one.rank >= 0) alive.insert(one.rank);
    }
    for (int rank = 0; rank < before_.ranks(); ++rank) {
      if (alive.contains(rank)) continue;
      plan_.failed.push_back(rank);
      for (const int seat : before_.seats(rank)) plan_.failed_seats.push_back(seat);
    }
    std::sort(plan_.failed_seats.begin(), plan_.failed_seats.end());
  }

  [[nodiscard]] int attempts() const {
    int most = 0;
    for (const Report& one : reports_) most = std::max(most, one.attempts);
    return most;
  }

  bool is_futile() {
    if (attempts() <= most_recovery_attempts) return false;
    plan_.refusal = fmt::format(
        "each of {} attempts to recover ended because another rank failed; the same error may come again in "
        "every replacement",
        most_recovery_attempts);
    return true;
  }

  // Decides who works on what; false when nobody can. New ranks and those that waited are assigned in order.
  bool seat_everyone() {
    std::vector<int> by_rank(static_cast<std::size_t>(before_.ranks()), -1), waiting;
    int spares = 0;
    for (int who = 0; who < count(); ++who) {
      if (report(who).rank >= 0) {
        by_rank[static_cast<std::size_t>(report(who).rank)] = who;
      } else if (report(who).joined || spares++ < spec_.spares) {
        waiting.push_back(who);  // all others wait for another run, and are not among the spares of this one
      }
    }
    if (spec_.kind == RecoveryKind::none || spec_.kind == RecoveryKind::relaunch) {
      plan_.refusal =
          spec_.kind == RecoveryKind::none ? "recovery is off" : "the job has to be launched again";
      return false;
    }
    if (plan_.expands) {
      seat_all(by_rank, waiting);
      return true;
    }
    if (spec_.kind == RecoveryKind::shrink) return seat_survivors(by_rank);
    plan_.missing = std::max(0, static_cast<int>(plan_.failed.size()) - static_cast<int>(waiting.size()));
    if (plan_.missing > 0 &&
        (spec_.kind == RecoveryKind::spare || (spec_.kind == RecoveryKind::restart && spec_.spares > 0))) {
      plan_.refusal = fmt::format("no spare is left: {} ranks failed and {} waited; give more spares",
                                  plan_.failed.size(), waiting.size());
      return false;
    }
    auto next = waiting.begin();
    plan_.workers = by_rank;
    for (int& who : plan_.workers) {
      if (who < 0 && next != waiting.end()) who = *next++;
    }
    plan_.map = before_;
    return true;
  }

  // As when the run began, a rank for each seat. A survivor keeps its first seat, unless the model is cut
  // again.
  void seat_all(const std::vector<int>& by_rank, const std::vector<int>& waiting) {
    plan_.map = ReplicaMap(before_.replicas(), stages_);
    plan_.workers.assign(static_cast<std::size_t>(plan_.map.ranks()), -1);
    std::vector<int> others;
    for (int rank = 0; rank < before_.ranks(); ++rank) {
      const int who = by_rank[static_cast<std::size_t>(rank)];
      if (who < 0) continue;
      if (recut()) {
        others.push_back(who);
      } else {
        plan_.workers[static_cast<std::size_t>(before_.seats(rank).front())] = who;
      }
    }
    others.insert(others.end(), waiting.begin(), waiting.end());
    auto next = others.begin();
    for (int& who : plan_.workers) {
      if (who < 0 && next != others.end()) who = *next++;
    }
    plan_.missing = static_cast<int>(std::ranges::count(plan_.workers, -1));
  }

  bool seat_survivors(const std::vector<int>& by_rank) {
    std::vector<int> old_ranks;
    for (int rank = 0; rank < before_.ranks(); ++rank) {
      if (by_rank[static_cast<std::size_t>(rank)] < 0) continue;
      old_ranks.push_back(rank);
      plan_.workers.push_back(by_rank[static_cast<std::size_t>(rank)]);
    }
    if (old_ranks.empty()) {
      plan_.refusal = "no rank is left";
      return false;
    }
    if (!route_around_failed()) return false;
    if (spec_.batch == record::BatchRule::smaller) return drop_replicas(by_rank);
    const auto left = static_cast<int>(old_ranks.size());
    if (left >= before_.stages()) {
      plan_.map = shrunken(before_, old_ranks);
      return true;
    }
    // Fewer ranks than stages: the model is cut again, and every rank computes its stage for all replicas.
    std::vector<int> hosts;
    for (int replica = 0; replica < before_.replicas(); ++replica) {
      for (int stage = 0; stage < left; ++stage) hosts.push_back(stage);
    }
    plan_.map = ReplicaMap(before_.replicas(), left, hosts);
    return true;
  }

  // False when nothing can be planned for the chips that are left.
  bool route_around_failed() {
    if (!plan_.mesh || plan_.failed.empty()) return true;
    std::vector<int> chips;
    for (const int rank : plan_.failed)
      chips.push_back(plan_.mesh->topology.live()[static_cast<std::size_t>(rank)]);
    plan_.mesh->topology = plan_.mesh->topology.without(chips);
    try {
      record::check_mesh(*plan_.mesh, "the chips that are left");
    } catch (const Error& error) {
      plan_.refusal = error.what();
      return false;
    }
    return true;
  }

  // Replicas that lost a rank are dropped whole; the remaining ones move together.
  bool drop_replicas(const std::vector<int>& by_rank) {
    std::vector<int> workers;
    int replicas = 0;
    for (int replica = 0; replica < before_.replicas(); ++replica) {
      std::vector<int> whole;
      for (int stage = 0; stage < before_.stages(); ++stage) {
        const int who = by_rank[static_cast<std::size_t>(before_.host(replica, stage))];
        if (who >= 0) whole.push_back(who);
      }
      if (static_cast<int>(whole.size()) != before_.stages()) continue;
      ++replicas;
      workers.insert(workers.end(), whole.begin(), whole.end());
    }
    if (replicas == 0) {
      plan_.refusal = "no replica is whole";
      return false;
    }
    plan_.workers = workers;
    plan_.map = ReplicaMap(replicas, before_.stages());
    return true;
  }

  // The furthest position of a survivor.
  void find_target() {
    for (int who = 0; who < count(); ++who) {
      const Report& one = report(who);
      if (!one.live || one.live->at < plan_.target) continue;
      if (plan_.target < one.live->at) plan_.leader = who;
      plan_.target = one.live->at;
    }
  }

  // Whether it is at the target, or reaches it by the decision that it missed.
  [[nodiscard]] bool ready(const Report& one) const {
    if (!one.live || one.live->stages != before_.stages()) return false;
    return one.live->at.commits == plan_.target.commits ||
           (one.prepared && one.live->at.commits + 1 == plan_.target.commits);
  }

  [[nodiscard]] bool wants_rollback() const {
    return spec_.kind == RecoveryKind::restart || recut() ||
           (!plan_.failed.empty() && spec_.state && *spec_.state != StateSource::replica);
  }

  [[nodiscard]] int live_donor(int stage) const {
    for (int who = 0; who < count(); ++who) {
      if (ready(report(who)) && report(who).live->stage == stage) return who;
    }
    return -1;
  }

  [[nodiscard]] bool has_live_state() const {
    if (plan_.target.commits < 0) return false;
    for (int stage = 0; stage < before_.stages(); ++stage) {
      if (live_donor(stage) < 0) return false;
    }
    return true;
  }

  void use_live_state() {
    for (int stage = 0; stage < before_.stages(); ++stage) plan_.donors.push_back(live_donor(stage));
    for (std::size_t rank = 0; rank < plan_.workers.size(); ++rank) {
      const int who = plan_.workers[rank], stage = plan_.map.stage_on(static_cast<int>(rank));
      const bool has = ready(report(who)) && report(who).live->stage == stage;
      plan_.givers.push_back(has ? who : plan_.donors[static_cast<std::size_t>(stage)]);
    }
    if (!plan_.failed.empty()) plan_.state = StateSource::replica;
  }

  [[nodiscard]] std::vector<int> snapshot_donors(const Position& at) const {
    std::vector<int> donors;
    for (int stage = 0; stage < before_.stages(); ++stage) {
      donors.push_back(snapshot_holder(at, stage, -1, -1));
      if (donors.back() < 0) return {};
    }
    return donors;
  }

  // The rank that keeps a stage's state of that position: the preferred one if it does, else one that keeps
  // the preferred replica's, else any; -1: no rank.
  [[nodiscard]] int snapshot_holder(const Position& at, int stage, int preferred, int replica) const {
    int same_replica = -1, any = -1;
    for (int who = count() - 1; who >= 0; --who) {
      for (const HeldState& held : report(who).snapshots) {
        if (held.at != at || held.stage != stage || held.stages != before_.stages()) continue;
        if (who == preferred && held.replica == replica) return who;
        if (held.replica == replica) same_replica = who;
        any = who;
      }
    }
    return same_replica >= 0 ? same_replica : any;
  }

  bool use_snapshots() {
    if (spec_.state && *spec_.state == StateSource::file) return false;
    if (spec_.state && *spec_.state == StateSource::replica && spec_.kind != RecoveryKind::restart)
      return false;
    std::set<Position, std::greater<>> positions;
    for (const Report& one : reports_) {
      for (const HeldState& held : one.snapshots) {
        if (held.stages == before_.stages()) positions.insert(held.at);
      }
    }
    for (const Position& at : positions) {
      plan_.donors = snapshot_donors(at);
      if (plan_.donors.empty()) continue;
      plan_.target = at;
      plan_.leader = plan_.donors.front();
      plan_.rolls_back = true;
      plan_.state = StateSource::buddy;
      for (std::size_t rank = 0; !recut() && rank < plan_.workers.size(); ++rank) {
        const int stage = plan_.map.stage_on(static_cast<int>(rank));
        const std::vector<int> replicas = plan_.map.replicas_on(static_cast<int>(rank));
        plan_.givers.push_back(snapshot_holder(at, stage, plan_.workers[rank], replicas.front()));
      }
      return true;
    }
    return false;
  }

  bool use_file() {
    if (spec_.state && *spec_.state != StateSource::file) return false;
    std::optional<Position> newest;
    for (int who = 0; who < count(); ++who) {
      const std::optional<Position>& file = report(who).file;
      if (!file || (newest && *file <= *newest)) continue;
      newest = file;
      plan_.leader = who;
    }
    if (!newest) return false;
    plan_.target = *newest;
    plan_.rolls_back = true;
    plan_.state = StateSource::file;
    return true;
  }

  [[nodiscard]] bool is_kept(int stage) const {
    return std::any_of(reports_.begin(), reports_.end(), [&](const Report& one) {
      return std::any_of(one.snapshots.begin(), one.snapshots.end(), [&](const HeldState& held) {
        return held.stage == stage && held.stages == before_.stages();
      });
    });
  }

  void refuse() {
    std::vector<int> lost;
    for (int stage = 0; stage < before_.stages(); ++stage) {
      if (live_donor(stage) < 0 && !is_kept(stage)) lost.push_back(stage);
    }
    const std::string advice = "take snapshots (snapshot_every) or write checkpoints (checkpoint_every)";
    if (lost.empty()) {
      plan_.refusal = fmt::format("no {} holds all of the state; {}",
                                  spec_.state ? name_of(*spec_.state) : "snapshot", advice);
    } else {
      plan_.refusal = fmt::format("no live rank holds stage {}{}; {}", fmt::join(lost, " or "),
                                  spec_.snapshot_every > 0 ? ", nor a copy of its snapshot" : "", advice);
    }
  }

  const record::RecoverySpec& spec_;
  const ReplicaMap& before_;
  const std::vector<Report>& reports_;
  const int stages_;  // as the run began
  RecoveryPlan plan_;
};

}  // namespace

RecoveryPlan plan_recovery(const record::RecoverySpec& spec, const ReplicaMap& before,
                           const std::vector<Report>& reports, const std::optional<record::MeshSpec>& mesh,
                           int stages) {
  return Planner(spec, before, reports, mesh, stages).run();
}

}  // namespace bitrift::train
