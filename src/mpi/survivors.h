// What the remaining ranks do after one has died (ULFM), and how more are started.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mpi/communicator.h"

namespace bitrift::mpi {

// Calls that need the dead rank notice its death and throw RankFailed. Other calls may wait for ever, until a
// rank revokes the communicator that they wait on. So a rank that notices a death revokes every communicator
// of the failed group, and every rank that then gets RankFailed calls shrink() on a communicator of all
// ranks.
//
// With one rank, or where survives_failures() is false, no rank can continue after a death: revoke() does
// nothing, and shrink() of several ranks throws Error(unsupported).

/// Whether this process can continue without a dead rank: MPI has ULFM, and mpirun was told
/// survival_options().
[[nodiscard]] bool survives_failures() noexcept;
/// Whether a thread of MPI sends and expects heartbeats: survival_options(true) were given.
[[nodiscard]] bool watches_heartbeats() noexcept;
/// mpirun's options for it; empty if this MPI has no ULFM. detector: ranks watch each other's heartbeats, so
/// that a stopped process is declared dead too (after 0.5 s). Without it, only the end of a process is
/// noticed. Needs no MPI at run time.
[[nodiscard]] std::vector<std::string> survival_options(bool detector);

/// Every call on this communicator that is in progress or comes later throws RankFailed, on every rank,
/// except the ones below. Local; returns at once; may be called again.
void revoke(const Communicator& communicator) noexcept;
/// Ranks of this communicator that this process knows to be dead, ascending. Local.
[[nodiscard]] std::vector<int> failed_ranks(const Communicator& communicator);
/// Whether all living ranks say yes: the same answer on all, even when ranks have died or die during the
/// call. Collective over the living; works on a revoked communicator.
[[nodiscard]] bool all_agree(const Communicator& communicator, bool mine);
/// Whether no rank has died: the same answer on all living ranks. Collective over them; works on a revoked
/// communicator.
[[nodiscard]] bool nobody_died(const Communicator& communicator);
/// The living ranks in their order. Collective over them; works on a revoked communicator. A rank that dies
/// during the call may still be among them: the next call that needs it throws RankFailed.
[[nodiscard]] Communicator shrink(const Communicator& communicator);

/// Starts one more process of `command` (a program and its arguments; the same on all ranks) and returns the
/// group of these ranks, in their order, then the new one. Collective. Throws RankFailed, Error(internal)
/// with MPI's text, or Error(unsupported) without a launcher.
[[nodiscard]] Communicator spawn(const Communicator& communicator, const std::vector<std::string>& command);
/// In a process that spawn() started: that same group; empty in any other process. Call it once, after
/// Environment began. Collective with spawn().
[[nodiscard]] std::optional<Communicator> spawned_into();
/// Whether spawn() started this process. Local.
[[nodiscard]] bool is_spawned();

}  // namespace bitrift::mpi
