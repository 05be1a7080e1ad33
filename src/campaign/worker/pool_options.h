// The settings from which a pool makes its workers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "campaign/launch/launch.h"
#include "design/campaign_spec.h"

namespace bitrift::campaign {

/// The places of a worker's files.
struct WorkerPlace {
  std::filesystem::path copy;  ///< its private checkpoint
  std::filesystem::path log;
  std::string scratch;  ///< see Scratch
};

struct PoolOptions {
  Launch launch;  ///< all except the base, which is the arm's
  std::vector<design::Arm> arms;
  std::optional<int> workers;  ///< groups side by side; absent: as many as the cores hold, at least one
  int check_every = 100;       ///< trials (jitter runs count) of a worker in a data order between two checks
  int orders = 1;              ///< golden data orders, see CampaignSpec::orders
  bool early_end = true;       ///< see RunRequest
  std::optional<record::PropagationSpec> propagation = {};  ///< of the campaign
  bool compare_loaded = false;               ///< trials of a script must change what the script loads, see
                                             ///< RunRequest
  double start_deadline_s = 120;             ///< see CampaignSpec::start_deadline()
  std::optional<std::uint64_t> memory = {};  ///< bytes that a worker may hold, see resident_memory()
  bool network = false;       ///< ranks may run on other machines, which see the folders of the copies
  std::string listen_at;      ///< network: see Listener
  bool flip_nothing = false;  ///< drill: the injector writes nothing
  std::function<WorkerPlace(int)> place_of;  ///< the file of a worker slot (0, 1, ...)
};

}  // namespace bitrift::campaign
