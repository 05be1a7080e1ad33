// The progress of a campaign: read from its folder, without disturbing those that work there.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "record/json/json.h"
#include "record/round.h"
#include "record/sampling.h"

namespace bitrift::campaign {

struct ArmStatus {
  std::string arm;
  std::size_t prepared = 0, to_prepare = 0;  ///< controls, envelope runs and canaries: done, and in all
  std::size_t trials = 0, planned = 0;
};

/// One of the drivers that share a campaign.
struct ShardStatus {
  std::string shard;  ///< "2/3"
  std::string state;  ///< "never started", "running: ...", "ended: ..."
  int starts = 0;
  std::size_t done = 0, planned = 0;  ///< its runs, in the published rounds
};

struct Status {
  std::string name;
  bool running = false;   ///< a driver holds the folder, or one of its shards
  bool has_base = false;  ///< without a base nothing is planned yet, and `arms` is empty
  std::vector<std::string> drills;
  std::vector<ArmStatus> arms;
  std::vector<ShardStatus> shards;  ///< empty: undivided
  std::size_t incidents = 0;
  std::size_t retracted = 0;
  std::optional<record::Sampling> sampling;  ///< of the spec
  std::vector<record::Round> rounds;         ///< as published
  bool decided = false;                      ///< all rounds are planned
  [[nodiscard]] bool complete() const noexcept;
};

/// For a divided campaign the shards' own journals count, merged or not. Throws Error as
/// read_stored_campaign, Plan and read_journal do.
[[nodiscard]] Status read_status(const std::filesystem::path& folder);
[[nodiscard]] record::Json to_json(const Status& status);

}  // namespace bitrift::campaign
