// The processes of a run: those that work, and those that wait to replace a dead one. Inside train/ only.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mpi/communicator.h"
#include "record/json/json.h"

namespace bitrift::train {

/// One process.
struct Member {
  int id = 0;  ///< unique in the run: rank as the job began, higher for those that joined later
  std::string host;
  int pid = 0;
};

class Team {
 public:
  /// All members of `everyone` work, and none may fail. Local.
  explicit Team(const mpi::Communicator& everyone);
  /// The first `working` ranks work, all other ranks wait; the team may lose members. Collective.
  Team(const mpi::Communicator& everyone, int working);
  /// A process that joins a team that lost members: it has no work yet. Local.
  [[nodiscard]] static Team newcomer(const mpi::Communicator& everyone);

  /// The group of all; the first `working` ranks work.
  [[nodiscard]] const mpi::Communicator& everyone() const noexcept { return everyone_; }
  [[nodiscard]] const mpi::Communicator& active() const noexcept { return *active_; }
  [[nodiscard]] bool working() const noexcept { return active_.has_value(); }
  [[nodiscard]] bool is_newcomer() const noexcept { return newcomer_; }
  /// Whether the team continues without a dead member.
  [[nodiscard]] bool may_lose() const noexcept { return may_lose_; }
  /// By rank in everyone().
  [[nodiscard]] const std::vector<Member>& members() const noexcept { return members_; }
  /// Ranks in everyone() that wait.
  [[nodiscard]] std::vector<int> idle() const;
  /// Whether this process is among the first `count` of those. Local.
  [[nodiscard]] bool waits_among_first(int count) const;
  /// Ranks in everyone() of those that work, by rank in active().
  [[nodiscard]] const std::vector<int>& workers() const noexcept { return workers_; }

  /// After a loss: `everyone` is the group of the living members. No member works until set_workers().
  void replace(const mpi::Communicator& everyone);
  /// One text of each member, by rank; also records who they are. Collective over everyone().
  [[nodiscard]] std::vector<record::Json> roll_call(const record::Json& mine);
  /// These ranks of everyone() work, in this order. Collective over everyone().
  void set_workers(const std::vector<int>& workers);
  /// Every call of these groups that is in progress fails on every rank. Local.
  void revoke() const noexcept;

  /// An idle member waits, without using its core, until release() (true) or until a member dies (false).
  [[nodiscard]] bool stand_by() const;
  /// Releases the waiting members. Called by one working rank.
  void release() const noexcept;
  /// For the end, when no rank's work is needed any more: calls `last` on each member that works, where one
  /// leads, and again while some of them died in it, where the next one leads; then release(). Collective
  /// over the working ranks.
  void part(const std::function<void(bool leads)>& last) const;

 private:
  Team() = default;
  mpi::Communicator everyone_;
  std::optional<mpi::Communicator> active_;
  std::vector<Member> members_;
  std::vector<int> workers_;
  Member me_;
  bool may_lose_ = false;
  bool newcomer_ = false;
};

/// Kills these processes if they run on this host: a stopped one must not come back.
void fence(const std::vector<Member>& lost) noexcept;

}  // namespace bitrift::train
