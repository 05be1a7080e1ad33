// The rows that a driver knows: its own journal and, when the campaign is divided, those of all other starts.
#pragma once

#include <string>
#include <vector>

#include "campaign/journal/journal.h"
#include "campaign/shard/shard_journals.h"

namespace bitrift::campaign {

class Ledger {
 public:
  /// others: nullptr for an undivided campaign; shard: whose rows count as own. All must outlive the ledger.
  explicit Ledger(Journal& own, const ShardJournals* others = nullptr, int shard = 1)
      : own_(own), others_(others), shard_(shard) {}

  /// Effective row of an id, from any shard.
  [[nodiscard]] const record::TrialRecord* find(const record::TrialId& id) const;
  /// The same, but only by this driver or an earlier start of its shard.
  [[nodiscard]] const record::TrialRecord* find_own(const record::TrialId& id) const;
  /// All effective rows, each id once. Throws Misbehaviour when two shards differ.
  [[nodiscard]] std::vector<record::TrialRecord> effective() const;
  [[nodiscard]] Journal& journal() noexcept { return own_; }
  [[nodiscard]] const Journal& journal() const noexcept { return own_; }

 private:
  Journal& own_;
  const ShardJournals* others_;
  int shard_;
};

}  // namespace bitrift::campaign
