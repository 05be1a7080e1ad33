// The lines of a table: the strata, or the parts of strata, that each line covers.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analyze/base_contents.h"
#include "analyze/group_rates.h"
#include "analyze/observations.h"
#include "analyze/order.h"
#include "analyze/rates/stratum_part.h"
#include "analyze/views/dimension.h"
#include "analyze/views/where.h"
#include "design/campaign_spec.h"

namespace bitrift::analyze {

struct Line {
  std::map<std::string, std::string> key;  ///< see Keys
  std::string arm;
  std::vector<Member> members;
};

/// All lines that are possible, whatever was observed: their number must not depend on it. Sorted by the
/// values of their keys or, by layer, tensor or bit, in the order of `by`: layers in network order, high bits
/// first.
class Lines {
 public:
  /// rows: those that `seen` was made from. contents: needed where `by` or `where` cuts through strata, else
  /// nullptr. All must outlive this. Throws Error(bad_input) when contents are missing or `where` asks for
  /// something that does not exist, Error(unsupported) on a row whose fault is not one bit of one element,
  /// and Error(conflict) on one whose fault is not in its stratum.
  Lines(const design::CampaignSpec& spec, const std::vector<Dimension>& by, Where& where,
        const Contents* contents, const Order& order, const Observations& seen,
        const std::vector<record::TrialRecord>& rows);
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  ~Lines() = default;

  [[nodiscard]] const std::vector<Line>& all() const noexcept { return lines_; }

 private:
  using Key = std::map<std::string, std::string>;
  void add_stratum(const design::Arm& arm, std::size_t position, const Key& key);
  void add_parts(const design::Arm& arm, std::size_t position, const Key& key);
  Line& line_of(const Key& key, const std::string& arm);
  void sort_by_position();
  void collect_rows(const std::vector<record::TrialRecord>& rows);

  const design::CampaignSpec& spec_;
  const std::vector<Dimension>& by_;
  Where& where_;
  const Contents* contents_;
  const Order& order_;
  const Observations& seen_;
  std::map<std::pair<std::string, std::string>, std::vector<const record::TrialRecord*>>
      rows_;  // by arm and stratum, sorted by draw
  std::map<Key, std::size_t> index_;
  std::vector<Line> lines_;
  std::deque<StratumSeen> parts_seen_;  // the objects that members point to
  std::deque<Part> parts_;
};

}  // namespace bitrift::analyze
