// States that this rank keeps in memory for a rollback: its own, and those of the rank whose buddy it is.
// Inside train/ only.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "train/parallel/rank_layout.h"
#include "train/recover/recovery_plan.h"
#include "train/state/state_copy.h"

namespace bitrift::train {

struct Snapshot {
  HeldState held;
  std::string ledger;  ///< of the run at that moment
  std::string state;   ///< in the form of pack_state()
};

class Snapshots {
 public:
  /// A buffer for the next state: that of an outdated snapshot, if there is one. Local.
  [[nodiscard]] std::string buffer();
  /// Keeps this state, and exchanges it with the buddy: rank r sends to rank r + 1, the last one to rank 0.
  /// Keeps two generations, because a rank may die before all ranks have the new one. Collective.
  void take(Snapshot mine, const Layout& layout);
  /// Keeps a snapshot that another rank gave. Local.
  void keep(Snapshot one);
  [[nodiscard]] std::vector<HeldState> held() const;
  /// The state of a stage at some position, preferably of this replica; nullptr: it is not kept.
  [[nodiscard]] const Snapshot* find(const Position& at, int stage, int stages, int replica) const;

 private:
  Snapshot exchange_in_ring(const Snapshot& mine, const mpi::Communicator& world);

  std::deque<Snapshot> kept_;  // the newest first
  std::vector<std::string> buffers_;
};

/// A text of any length. Not collective; both ranks call it.
void send_text(const mpi::Communicator& communicator, const std::string& text, int to);
[[nodiscard]] std::string receive_text(const mpi::Communicator& communicator, int from);

}  // namespace bitrift::train
