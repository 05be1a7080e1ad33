// The part of a campaign that a driver runs when several share its folder.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "campaign/plan/plan.h"
#include "record/round.h"

namespace bitrift::campaign {

/// One of `count` drivers. The only one of an undivided campaign is {1, 1}.
struct ShardId {
  int index = 1;  ///< from 1
  int count = 1;
  [[nodiscard]] std::string text() const;    ///< "2/3"
  [[nodiscard]] std::string folder() const;  ///< "2-of-3"
  bool operator==(const ShardId&) const = default;
};

/// "I/N" with I from 1 to N, or "slurm": the place of this task in its job array (SLURM_ARRAY_TASK_ID, _MIN,
/// _MAX, _STEP, _COUNT). Throws Error(bad_input).
[[nodiscard]] ShardId parse_shard(const std::string& text);

/// Whether the shards take runs of this kind in turn: trials, envelope, held-out and jitter runs. Everything
/// else (controls, canaries) runs in each shard, to examine its machine.
[[nodiscard]] bool in_turn(record::TrialKind kind);
/// Whether a run of the preparation belongs to this shard.
[[nodiscard]] bool takes(const ShardId& shard, const RunKey& key);
/// The runs of the preparation that are this shard's, of all arms.
[[nodiscard]] std::vector<RunKey> preparation_of(const ShardId& shard, const Plan& plan);
/// The trials of a round that belong to this shard: each count-th of the round's list of arms, strata and
/// draws. Arms that join in the round also run all draws before it.
[[nodiscard]] std::vector<RunKey> trials_of(const ShardId& shard, const record::Round& round);

}  // namespace bitrift::campaign
