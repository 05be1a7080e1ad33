// A campaign's runs, stage after stage, together with the drivers of the other shards.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "campaign/driver/driver.h"
#include "campaign/folder/folder.h"
#include "campaign/plan/plan.h"
#include "campaign/progress/progress.h"
#include "campaign/shard/ledger.h"
#include "campaign/shard/shards.h"
#include "campaign/worker/pool.h"

namespace bitrift::campaign {

class Stages {
 public:
  /// All must outlive the stages.
  struct Parts {
    Plan& plan;
    Driver& driver;
    Pool& pool;
    const Ledger& ledger;
    Folder& folder;
    Progress& progress;
    int side_by_side = 1;  ///< groups of workers
  };
  explicit Stages(const Parts& parts) : at_(parts) {}

  /// The preparation. Throws Misbehaviour if controls or canaries do not allow the campaign to continue.
  void prepare();
  /// Round after round, each planned from all rows of those before, until one says stop.
  void run_rounds();

 private:
  using JobsOf = std::function<std::vector<Job>(const Driver&)>;
  void run_round();
  void examine_machine();
  void stand_in(StandIn& other, const Stage& stage, const JobsOf& jobs_of);
  void finish_together(const Stage& stage, const JobsOf& jobs_of);
  [[nodiscard]] ShardId shard() const { return at_.driver.shard(); }

  Parts at_;
};

}  // namespace bitrift::campaign
