// Which lines of a table are wanted: --where KEY=VALUE.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "analyze/views/dimension.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"

namespace bitrift::analyze {

/// Conditions on dimensions; all must hold, each for one of its values.
class Where {
 public:
  /// conditions: KEY=VALUE[,VALUE...]; values of a repeated key add up. Values of `tensor` are patterns
  /// (core/text/glob.h). Throws Error(bad_input) on a text without '=' or value, and as dimension_named()
  /// does.
  Where(const std::vector<std::string>& conditions, const design::CampaignSpec& spec);

  [[nodiscard]] bool empty() const noexcept { return wanted_.empty(); }
  /// Whether layer, tensor or bit is among the conditions.
  [[nodiscard]] bool cuts_strata() const noexcept;
  /// The dimensions with a condition.
  [[nodiscard]] std::vector<Dimension> dimensions() const;
  /// Whether this value is wanted, or the dimension has no condition. Remembers the value for check().
  [[nodiscard]] bool allows(Dimension dimension, const std::string& value);
  /// Throws Error(bad_input) that lists all values when a wanted value was not among those that allows() was
  /// asked about.
  void check() const;

 private:
  std::map<Dimension, std::vector<std::string>> wanted_;
  std::map<Dimension, std::vector<std::string>> offered_;  // each value once, in the order of the calls
  std::map<Dimension, std::set<std::string>> met_;         // wanted values
};

/// Whether --by or --where uses layer, tensor or bit, which needs the campaign's Contents.
[[nodiscard]] bool needs_contents(const std::vector<std::string>& by, const std::vector<std::string>& where);

}  // namespace bitrift::analyze
