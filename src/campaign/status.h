// How far a campaign is: read from its folder, without disturbing who works there.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "record/json.h"
#include "record/round.h"
#include "record/sampling.h"

namespace bitrift::campaign {

struct ArmStatus {
  std::string arm;
  std::size_t prepared = 0, to_prepare = 0;  ///< controls, envelope runs and canaries: done, and in all
  std::size_t trials = 0, planned = 0;
};

struct Status {
  std::string name;
  bool running = false;   ///< a driver holds the folder
  bool has_base = false;  ///< without a base nothing is planned yet, and `arms` is empty
  std::vector<std::string> drills;
  std::vector<ArmStatus> arms;
  std::size_t incidents = 0;
  std::size_t retracted = 0;
  std::optional<record::Sampling> sampling;  ///< of the spec
  std::vector<record::Round> rounds;         ///< as published
  [[nodiscard]] bool complete() const noexcept;
};

/// Throws Error as read_stored_campaign, Plan and read_journal do.
[[nodiscard]] Status read_status(const std::filesystem::path& folder);
[[nodiscard]] record::Json to_json(const Status& status);

}  // namespace bitrift::campaign
