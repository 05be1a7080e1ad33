// The table of a campaign's folder and its summary.json, for every subcommand that ends with them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "analyze/summary.h"
#include "analyze/verdict/trust.h"
#include "analyze/views/trials_view.h"
#include "campaign/folder/folder.h"
#include "core/named_enum.h"

namespace bitrift::cli {

/// The tables of a campaign.
enum class View { rates, map, metrics, horizons, propagation, detectors, process, jpdc2024 };
constexpr EnumNames<8> names_of(View) {
  return {"view", {"rates", "map", "metrics", "horizons", "propagation", "detectors", "process", "jpdc2024"}};
}

/// What is printed of a campaign.
struct ReportOptions {
  std::vector<std::string> by = {};  ///< see analyze::dimensions; empty: what is usual
  View view = View::rates;
  analyze::RateOf map_of = analyze::RateOf::harmed;  ///< of the view map
  std::optional<analyze::RateOf> sort = {};          ///< worst first; summary.json keeps its order
  std::size_t top = 0;                               ///< so many lines; 0: all
  // How outcomes are found, where it is not as the campaign asks.
  std::optional<std::size_t> horizon = {};
  std::vector<std::string> metrics = {};
  bool json = false;
  analyze::SummaryOptions rates = {};
};

/// A campaign whose controls, clean runs and canaries behave.
struct TrustedCampaign {
  campaign::Layout layout;
  campaign::StoredCampaign stored;
  std::vector<record::TrialRecord> rows;  ///< see effective_rows()
  analyze::Trust trust;
};

/// The rows of a folder that count. Warns on stderr about shards that are not merged yet.
[[nodiscard]] std::vector<record::TrialRecord> effective_rows(const campaign::Layout& layout);
/// A campaign to be judged as `options` says. nullopt when its verdicts cannot be believed: stderr then says
/// why. Throws as campaign::read_stored_campaign, campaign::read_journal and analyze::trust_of do.
[[nodiscard]] std::optional<TrustedCampaign> read_trusted(const std::filesystem::path& folder,
                                                          const ReportOptions& options = {});

/// What was altered in a trial, how it ended and what was measured, in three lines.
[[nodiscard]] std::string trial_text(const analyze::TrialLine& line);

/// Reads the folder's spec and journal, and prints a table (or its JSON) on stdout. The views rates, metrics
/// and jpdc2024 also write summary.json, atomically. Returns 0; 1 when canaries misbehave or clean runs
/// contradict the stated level: each problem is then a line on stderr, and neither a table nor a file comes.
/// command: what the user called, for the provenance. Throws Error as campaign::read_stored_campaign,
/// campaign::read_journal and analyze::summarize do.
[[nodiscard]] int report_campaign(const std::filesystem::path& folder, const ReportOptions& options,
                                  const std::vector<std::string>& command);

}  // namespace bitrift::cli
