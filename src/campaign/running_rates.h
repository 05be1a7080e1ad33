// The rates of a campaign under way, kept up to date row by row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyze/classify.h"
#include "analyze/stratified.h"
#include "record/campaign_spec.h"
#include "record/outcome.h"
#include "record/trial.h"

namespace bitrift::campaign {

/// Counts outcomes as the summary does (docs/statistics.md): of each stratum and arm the rows up to the first
/// draw that has none. A row costs one classification, whatever came before; a rate O(strata).
class RunningRates {
 public:
  /// spec must outlive this. controls: what rows are judged against, by arm.
  RunningRates(const record::CampaignSpec& spec, std::map<std::string, analyze::ArmControls> controls);

  /// Takes a row in; rows that are no trials, and those that the analysis will refuse, are left out.
  void add(const record::TrialRecord& row);
  /// Takes the row of a trial back; nothing when there is none.
  void remove(const record::TrialId& id);

  /// Trials of an arm that count.
  [[nodiscard]] std::size_t trials(const std::string& arm) const;
  /// Of an arm that has trials which count. Throws Error(bad_input) for another.
  [[nodiscard]] analyze::StratifiedRate rate(const std::string& arm, record::OutcomeClass outcome) const;
  /// One line for each arm (of several fault models, which are no parts of one population: each arm and
  /// model) that has trials which count: "serial: 120 trials: masked 71.0 % (62.1 to 78.5), SDC ..., crash
  /// ..." with Wilson's interval. At most eight, then how many more.
  [[nodiscard]] std::vector<std::string> lines() const;

 private:
  struct Cell {
    std::uint64_t bits = 0;
    std::vector<std::uint8_t> seen;  // by draw: 0, or 1 + the outcome's class
    std::size_t counted = 0;         // draws without a gap before them
    std::array<std::uint64_t, 3> hits{};
  };
  /// Of one stratum, or with "" of all.
  [[nodiscard]] std::vector<analyze::StratumCount> counts(const std::string& arm, const std::string& stratum,
                                                          record::OutcomeClass outcome) const;
  void add_line(const std::string& arm, const std::string& stratum, std::vector<std::string>& lines) const;

  const record::CampaignSpec& spec_;
  std::map<std::string, analyze::ArmControls> controls_;
  std::map<std::string, std::map<std::string, Cell>> cells_;  // by arm, then stratum
};

}  // namespace bitrift::campaign
