// A shard without a driver, while the driver of another shard runs its part of a stage.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "campaign/folder/folder.h"
#include "campaign/journal/journal.h"
#include "campaign/shard/lease.h"
#include "campaign/shard/ledger.h"
#include "campaign/shard/shard_id.h"
#include "campaign/shard/shard_journals.h"

namespace bitrift::campaign {

/// A start of that shard like any other, with a journal of its own: the readers of the folder need not know
/// that another driver made it.
class StandIn {
 public:
  /// lease: of the shard `id`. journals: those that this process reads; they ignore this start until the end
  /// of this object, which they must outlive.
  StandIn(std::unique_ptr<Lease> lease, const ShardId& id, ShardJournals& journals);
  ~StandIn();
  StandIn(StandIn&&) = delete;
  StandIn& operator=(StandIn&&) = delete;

  [[nodiscard]] const ShardId& id() const noexcept { return id_; }
  [[nodiscard]] DriverPlace place() const { return {lease_->folder()}; }
  [[nodiscard]] Ledger& ledger() noexcept { return ledger_; }
  /// Whether the shard's own driver has started and waits.
  [[nodiscard]] bool wanted() const;
  [[nodiscard]] bool lost() const noexcept { return lease_->lost(); }
  /// What others will read about its end.
  void set_end(const std::string& text) { lease_->set_end(text); }

 private:
  std::unique_ptr<Lease> lease_;
  ShardId id_;
  ShardJournals& journals_;
  Journal journal_;
  Ledger ledger_;
};

/// Exists in a shard's folder while the shard's own driver waits for the end of a stand-in.
[[nodiscard]] std::filesystem::path wanted_file(const std::filesystem::path& shard_folder);

/// "2-of-3/0004", of the folder DIR/shards/2-of-3/0004.
[[nodiscard]] std::string start_name(const std::filesystem::path& start);

/// Removes what earlier starts of a shard left on this machine: private copies and files for their ranks.
void remove_earlier_work(const Lease& lease);

}  // namespace bitrift::campaign
