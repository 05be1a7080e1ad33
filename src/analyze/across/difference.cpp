#include "analyze/across/difference.h"

#include <algorithm>
#include <map>

#include "analyze/rates/total_estimate.h"
#include "analyze/rates/total_interval.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

std::uint64_t bits_of(const Side& side, const std::string& stratum) {
  const SampledCell* const cell = side.sample->cell(side.arm, stratum);
  return cell != nullptr ? cell->bits : side.sample->order.bits[side.sample->order.position(stratum)];
}

std::uint64_t sum(const std::vector<std::uint8_t>& hits) {
  return static_cast<std::uint64_t>(std::count(hits.begin(), hits.end(), 1));
}

std::vector<std::uint8_t> hits_in(const Side& side, const std::string& stratum, const SampledCell& cell,
                                  record::OutcomeClass outcome) {
  const auto& outcomes = side.outcomes == nullptr ? cell.outcomes : side.outcomes->at(stratum);
  std::vector<std::uint8_t> hits;
  hits.reserve(outcomes.size());
  for (const record::OutcomeClass one : outcomes) hits.push_back(one == outcome ? 1 : 0);
  return hits;
}

// Whether both sides have a draw in common, and every such draw is the same fault.
bool same_faults(const Side& first, const Side& second) {
  bool any = false;
  for (const std::string& stratum : first.sample->order.names) {
    const SampledCell* const one = first.sample->cell(first.arm, stratum);
    const SampledCell* const other = second.sample->cell(second.arm, stratum);
    if (one == nullptr || other == nullptr) continue;
    const std::size_t draws = std::min(one->faults.size(), other->faults.size());
    if (one->bits != other->bits) return false;
    if (!std::equal(one->faults.begin(), one->faults.begin() + static_cast<std::ptrdiff_t>(draws),
                    other->faults.begin()))
      return false;
    any = true;
  }
  return any;
}

ComparisonKind kind_of(const Side& first, const Side& second) {
  if (same_faults(first, second)) return ComparisonKind::paired;
  const bool fixed = first.sample->fixed_draws() && second.sample->fixed_draws();
  const auto& names = first.sample->order.names;
  const bool same_sizes = std::all_of(names.begin(), names.end(), [&](const std::string& stratum) {
    return bits_of(first, stratum) == bits_of(second, stratum);
  });
  return fixed && same_sizes ? ComparisonKind::unpaired : ComparisonKind::unrelated;
}

// The least number of draws, of both sides together, in a group; a few more if their faults are equally
// large.
constexpr std::size_t kDrawsOfGroup = 20;

// Groups the draws of a stratum by faults of about the same size, where both sides have some. Sizes are known
// before a run is, so Fisher's test stays exact; luck no longer decides how many of the large faults, which
// do the harm, a side happens to draw.
std::vector<TwoCounts> counts_by_size(const SampledCell& one, const std::vector<std::uint8_t>& first,
                                      const SampledCell& other, const std::vector<std::uint8_t>& second) {
  struct Draw {
    double size;
    bool is_second;
    std::uint8_t hit;
  };
  std::vector<Draw> draws;
  for (std::size_t i = 0; i < first.size(); ++i) draws.push_back({one.sizes[i], false, first[i]});
  for (std::size_t i = 0; i < second.size(); ++i) draws.push_back({other.sizes[i], true, second[i]});
  std::sort(draws.begin(), draws.end(), [](const Draw& a, const Draw& b) { return a.size < b.size; });
  const auto sized =
      std::find_if(draws.begin(), draws.end(), [](const Draw& a) { return a.size != no_size; });
  const auto unsized = static_cast<std::size_t>(sized - draws.begin());
  std::map<std::size_t, TwoCounts> groups;
  std::size_t begin = 0;
  for (std::size_t end = 0; begin < draws.size(); begin = end) {
    while (end < draws.size() && draws[end].size == draws[begin].size) ++end;
    // The mean of their ranks decides; draws without a size form a separate group.
    const std::size_t group =
        begin < unsized ? 0 : 1 + (begin - unsized + end - unsized - 1) / (2 * kDrawsOfGroup);
    for (std::size_t i = begin; i < end; ++i) {
      TwoCounts& counts = groups[group];
      ++(draws[i].is_second ? counts.second_trials : counts.first_trials);
      (draws[i].is_second ? counts.second_hits : counts.first_hits) += draws[i].hit;
    }
  }
  std::vector<TwoCounts> list;
  for (const auto& [group, counts] : groups) {
    if (counts.first_trials > 0 && counts.second_trials > 0) list.push_back(counts);
  }
  return list;
}

using Draws = std::vector<std::uint8_t> StratumPairs::*;

double rate_of(const Side& side, const Order& order, const std::vector<StratumPairs>& strata, Draws draws) {
  std::vector<StratumClasses> classes;
  for (const StratumPairs& one : strata) {
    const std::string& name = order.names[classes.size()];
    classes.push_back({bits_of(side, name), one.*draws, one.counted && !(one.*draws).empty()});
  }
  return total_estimate(order.rounds, classes, 2).at(1);
}

std::vector<StratumHits> hits_of(const Side& side, const std::vector<StratumPairs>& strata, Draws draws) {
  std::vector<StratumHits> hits;
  for (const StratumPairs& one : strata) {
    const std::string& name = side.sample->order.names[hits.size()];
    hits.push_back({bits_of(side, name), one.*draws, one.counted, 1});
  }
  return hits;
}

}  // namespace

RateDifference::RateDifference(Side first, Side second, record::OutcomeClass outcome,
                               const std::vector<std::string>& strata, std::optional<ComparisonKind> kind)
    : first_(std::move(first)), second_(std::move(second)) {
  const auto& names = first_.sample->order.names;
  if (names != second_.sample->order.names)
    fail(ErrorCode::conflict, "campaigns with other strata cannot be compared");
  kind_ = kind.value_or(kind_of(first_, second_));
  fixed_ = first_.sample->fixed_draws() && second_.sample->fixed_draws();
  // If the plans were fixed, it was known before the draws which one has fewer.
  const bool shorter = fixed_ && second_.sample->draws_per_arm() < first_.sample->draws_per_arm();
  walked_ = shorter ? &second_.sample->order : &first_.sample->order;
  for (const std::string& name : names) {
    const bool counted = strata.empty() || std::find(strata.begin(), strata.end(), name) != strata.end();
    add(name, counted, outcome);
  }
  if (first_trials_ == 0 || second_trials_ == 0) {
    fail(ErrorCode::conflict,
         "arm '{}' of one campaign and '{}' of the other have no stratum with trials of both", first_.arm,
         second_.arm);
  }
  share_seen_ = sized_ && bits_ > 0 ? bits_seen_ / bits_ : 0;
  set_rates();
  if (kind_ == ComparisonKind::paired) counts_ = count_pairs(pairs_);
}

void RateDifference::add(const std::string& stratum, bool counted, record::OutcomeClass outcome) {
  const SampledCell* const one = first_.sample->cell(first_.arm, stratum);
  const SampledCell* const other = second_.sample->cell(second_.arm, stratum);
  const bool both = one != nullptr && other != nullptr;
  StratumPairs all;
  all.bits = bits_of(second_, stratum);
  all.counted = counted;
  if (one != nullptr) all.first = hits_in(first_, stratum, *one, outcome);
  if (other != nullptr) all.second = hits_in(second_, stratum, *other, outcome);
  StratumPairs pairs = all;
  const std::size_t draws = std::min(all.first.size(), all.second.size());
  pairs.first.resize(draws);
  pairs.second.resize(draws);
  if (counted) {
    sized_ = sized_ && all.bits > 0 && bits_of(first_, stratum) > 0;
    bits_ += static_cast<double>(all.bits);
    bits_seen_ += both ? static_cast<double>(all.bits) : 0;
    const StratumPairs& used = kind_ == ComparisonKind::paired ? pairs : all;
    first_trials_ += used.first.size();
    second_trials_ += used.second.size();
    first_hits_ += sum(used.first);
    second_hits_ += sum(used.second);
    if (both) {
      const auto counts = counts_by_size(*one, used.first, *other, used.second);
      table_.insert(table_.end(), counts.begin(), counts.end());
    }
  }
  pairs_.push_back(std::move(pairs));
  alone_.push_back(std::move(all));
}

void RateDifference::set_rates() {
  const bool paired = kind_ == ComparisonKind::paired;
  const auto& used = paired ? pairs_ : alone_;
  first_rate_ = rate_of(first_, paired ? *walked_ : first_.sample->order, used, &StratumPairs::first);
  second_rate_ = rate_of(second_, paired ? *walked_ : second_.sample->order, used, &StratumPairs::second);
}

Interval RateDifference::interval(double confidence) const {
  if (!sized_) return {-1, 1};
  Interval interval;
  if (kind_ == ComparisonKind::unrelated) {
    const auto one = hits_of(first_, alone_, &StratumPairs::first);
    const auto other = hits_of(second_, alone_, &StratumPairs::second);
    interval = total_difference({&first_.sample->order.rounds, &one}, {&second_.sample->order.rounds, &other},
                                confidence, expected_difference);
  } else {
    interval = paired_interval(walked_->rounds, pairs_, confidence);
  }
  return stretched_to(difference(), interval);
}

double RateDifference::p() const {
  return smallest_error([this](double error) {
    const Interval at = interval(1 - error);
    return at.low > 0 || at.high < 0;
  });
}

double RateDifference::p_above(double tolerance) const {
  if (difference() <= tolerance) return 1;
  return smallest_error([&](double error) { return interval(1 - error).low > tolerance; });
}

std::optional<double> RateDifference::exact_p() const {
  if (!fixed_) return std::nullopt;
  if (kind_ == ComparisonKind::paired) return exact_mcnemar(counts_.first_only, counts_.second_only);
  return stratified_fisher(table_).two_sided;
}

std::optional<double> RateDifference::exact_p_above() const {
  if (!fixed_) return std::nullopt;
  if (kind_ == ComparisonKind::paired) return exact_mcnemar_greater(counts_.first_only, counts_.second_only);
  return stratified_fisher(table_).greater;
}

record::Json to_json(const RateDifference& rates) {
  record::Json value = {{"kind", name_of(rates.kind())},          {"first_trials", rates.first_trials()},
                        {"second_trials", rates.second_trials()}, {"first_hits", rates.first_hits()},
                        {"second_hits", rates.second_hits()},     {"first_rate", rates.first_rate()},
                        {"second_rate", rates.second_rate()},     {"difference", rates.difference()}};
  if (rates.kind() == ComparisonKind::paired) {
    value["first_only"] = rates.counts().first_only;
    value["second_only"] = rates.counts().second_only;
  }
  return value;
}

}  // namespace bitrift::analyze
