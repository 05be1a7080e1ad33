#include "analyze/across/gate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/ranges.h>

#include "analyze/across/meaning.h"
#include "analyze/views/dimension.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;
using Key = std::map<std::string, std::string>;

constexpr const char* kHint = "write a new baseline with --update";

struct Place {
  std::string arm;
  std::vector<std::string> strata;
};

bool matches(const Key& key, const GateFamily& family) {
  return std::all_of(family.where.begin(), family.where.end(), [&](const auto& wanted) {
    const auto& values = wanted.second;
    return std::find(values.begin(), values.end(), key.at(wanted.first)) != values.end();
  });
}

// The lines of a family, one for every arm that the baseline has.
std::map<Key, Place> places_of(const GateFamily& family, const Sample& baseline, const Sample& current) {
  std::vector<std::string> finer = family.by;
  for (const auto& [name, values] : family.where) {
    if (name != key_name(Dimension::strategy)) finer.push_back(name);
  }
  const auto shown_by = dimensions(family.by, current.spec);
  const auto known_by = dimensions(finer, current.spec);
  const Keys shown(current.spec, shown_by);
  const Keys known(current.spec, known_by);
  std::map<Key, Place> places;
  for (const design::Arm& arm : baseline.spec.arms) {
    for (const std::string& stratum : current.order.names) {
      if (!matches(known.of(arm.name, stratum), family)) continue;
      Place& place = places[shown.of(arm.name, stratum)];
      place.arm = arm.name;
      place.strata.push_back(stratum);
    }
  }
  if (!places.empty()) return places;
  std::vector<std::string> wanted;
  for (const auto& [name, values] : family.where)
    wanted.push_back(fmt::format("{} {}", name, fmt::join(values, " or ")));
  fail(ErrorCode::bad_input,
       "no arm and stratum of this campaign has {}; correct \"where\" of the tolerances",
       fmt::join(wanted, " and "));
}

GateTest test_of(const GateLine& line) {
  const RateDifference& difference = line.difference.shown();
  if (!difference.fixed_draws() || line.tolerance > 0) return GateTest::interval;
  return difference.kind() == ComparisonKind::paired ? GateTest::mcnemar : GateTest::fisher;
}

// The test counts the fewest hits of the campaign, and the reader sees all: the difference between them, as a
// share of the trials.
double in_doubt(const LimitedDifference& difference) {
  const std::uint64_t hits = difference.shown().second_hits() - difference.least().second_hits();
  return static_cast<double>(hits) / static_cast<double>(difference.shown().second_trials());
}

// The probability of at least this many pairs in which only the campaign has the outcome, among those in
// which the baseline lacks it.
double visible_by_mcnemar(const RateDifference& least, double level) {
  const PairCounts& counts = least.counts();
  const auto pairs = static_cast<double>(counts.pairs());
  std::uint64_t worse = counts.first_only + 1;
  // In addition, the weighted rate must have increased.
  const double missing = -least.difference() * pairs;
  if (missing >= 0) worse = std::max(worse, counts.second_only + static_cast<std::uint64_t>(missing) + 1);
  for (; worse <= counts.second_only + counts.neither; ++worse) {
    if (exact_mcnemar_greater(counts.first_only, worse) > level) continue;
    return (static_cast<double>(worse) - static_cast<double>(counts.first_only)) / pairs;
  }
  return 1;
}

// The table of counts with the first sample's rates in the second. Rounding errors, and hits that do not fit,
// are passed on to the next cell, and from the last cell to the first.
std::vector<TwoCounts> at_the_first_rates(std::vector<TwoCounts> table) {
  double owed = 0;
  for (std::size_t round = 0; round < 2; ++round) {
    for (TwoCounts& one : table) {
      const auto drawn = static_cast<double>(one.second_trials);
      const double rate = static_cast<double>(one.first_hits) / static_cast<double>(one.first_trials);
      const double wanted = owed + (round == 0 ? rate * drawn : static_cast<double>(one.second_hits));
      const double hits = std::clamp(std::round(wanted), 0.0, drawn);
      owed = wanted - hits;
      one.second_hits = static_cast<std::uint64_t>(hits);
    }
  }
  return table;
}

// The cells to which further hits go, one after the other, until all are full: in proportion to their trials
// (Sainte-Lague). So the hits for n more are a subset of those for n + 1 more.
std::vector<std::size_t> cells_of_further_hits(const std::vector<TwoCounts>& table) {
  std::vector<std::size_t> cells;
  std::vector<std::uint64_t> given(table.size(), 0);
  while (true) {
    std::optional<std::size_t> next;
    double most = 0;
    for (std::size_t i = 0; i < table.size(); ++i) {
      if (table[i].second_hits + given[i] == table[i].second_trials) continue;
      const double claim =
          static_cast<double>(table[i].second_trials) / (2 * static_cast<double>(given[i]) + 1);
      if (claim <= most) continue;
      most = claim;
      next = i;
    }
    if (!next) return cells;
    ++given[*next];
    cells.push_back(*next);
  }
}

double visible_by_fisher(const RateDifference& least, double level) {
  const std::vector<TwoCounts> before = at_the_first_rates(least.table());
  const std::vector<std::size_t> cells = cells_of_further_hits(before);
  const auto fails = [&](std::size_t more) {
    std::vector<TwoCounts> table = before;
    for (std::size_t i = 0; i < more; ++i) ++table[cells[i]].second_hits;
    return stratified_fisher(table).greater <= level;
  };
  if (!fails(cells.size())) return 1;
  std::size_t unseen = 0;
  std::size_t seen = cells.size();
  while (seen - unseen > 1) {
    const std::size_t middle = unseen + (seen - unseen) / 2;
    (fails(middle) ? seen : unseen) = middle;
  }
  return static_cast<double>(seen) / static_cast<double>(least.second_trials());
}

double visible(const GateLine& line, double level) {
  const RateDifference& least = line.difference.least();
  const double left = level - line.difference.miss();
  if (left <= 0) return 1;
  double increase = 1;
  switch (line.test) {
    case GateTest::mcnemar:
      increase = visible_by_mcnemar(least, left);
      break;
    case GateTest::fisher:
      increase = visible_by_fisher(least, left);
      break;
    case GateTest::interval:
      increase = least.difference() - least.interval(1 - left).low + line.tolerance;
  }
  return std::min(1.0, increase + in_doubt(line.difference));
}

double p_of(const GateLine& line) {
  if (line.difference.least().difference() <= line.tolerance) return 1;
  if (line.test == GateTest::interval) return line.difference.p_above(line.tolerance);
  return line.difference.exact_p_above().value_or(1);
}

const GateArm& find_arm(const std::vector<GateArm>& arms, const std::string& name) {
  return *std::find_if(arms.begin(), arms.end(), [&](const GateArm& one) { return one.arm == name; });
}

std::vector<GateLine> lines_of(const Sample& baseline, const Sample& current, const GateRules& rules,
                               const std::vector<GateArm>& arms) {
  std::vector<GateLine> lines;
  for (const GateFamily& family : rules.families) {
    for (const OutcomeClass outcome : family.outcomes) {
      for (const auto& [key, place] : places_of(family, baseline, current)) {
        LimitedDifference difference({&baseline, place.arm}, {&current, place.arm},
                                     find_arm(arms, place.arm).limit, outcome, place.strata);
        const Interval interval = difference.interval(1 - rules.alpha);
        lines.push_back({key, outcome, family.tolerance, family.must_see, std::move(difference), interval});
        GateLine& line = lines.back();
        line.test = test_of(line);
        line.p = p_of(line);
      }
    }
  }
  return lines;
}

void decide(std::vector<GateLine>& lines, double alpha) {
  std::vector<double> p_values;
  p_values.reserve(lines.size());
  for (const GateLine& line : lines) p_values.push_back(line.p);
  const std::vector<double> adjusted = holm(p_values);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    GateLine& line = lines[i];
    line.adjusted_p = adjusted[i];
    line.visible = visible(line, alpha / static_cast<double>(lines.size()));
    if (line.adjusted_p <= alpha) {
      line.verdict = GateVerdict::worse;
    } else if (line.must_see && line.visible > *line.must_see) {
      line.verdict = GateVerdict::undecided;
    }
  }
}

void add_flips(GateReport& report, const Sample& baseline, const Sample& current) {
  for (const auto& [id, before] : baseline.cells) {
    const SampledCell* const after =
        baseline.cell(id.first, id.second) == nullptr ? nullptr : current.cell(id.first, id.second);
    if (after == nullptr) continue;
    const OneLimit& limit = find_arm(report.arms, id.first).limit;
    const auto& was = limit.first.at(id.second);
    const auto& is = limit.second.at(id.second);
    for (std::size_t draw = 0; draw < std::min(was.size(), is.size()); ++draw) {
      if (before.faults[draw] != after->faults[draw]) continue;
      ++report.pairs;
      if (was[draw] != is[draw]) report.flips.push_back({{id.first, id.second, draw}, was[draw], is[draw]});
    }
  }
  std::stable_sort(report.flips.begin(), report.flips.end(), [](const Flip& one, const Flip& other) {
    return std::pair(!one.worse(), one.id) < std::pair(!other.worse(), other.id);
  });
}

bool has_arm(const Sample& sample, const std::string& name) {
  return std::any_of(sample.spec.arms.begin(), sample.spec.arms.end(),
                     [&](const design::Arm& arm) { return arm.name == name; });
}

}  // namespace

std::string GateLine::name() const {
  std::string text = name_of(outcome);
  for (const auto& [dimension, value] : key) text += fmt::format(", {} {}", dimension, value);
  return text;
}

GateVerdict GateReport::verdict() const noexcept {
  GateVerdict worst = GateVerdict::passed;
  for (const GateLine& line : lines) worst = std::max(worst, line.verdict);
  return worst;
}

void refuse_unfinished(const Sample& sample) {
  const std::uint64_t planned = sample.draws_per_arm() * sample.spec.arms.size();
  if (sample.trials() >= planned) return;
  fail(ErrorCode::bad_input,
       "campaign '{}' has {} of {} trials; let `bitrift campaign run` finish it, because the trials that are "
       "there first are not a fair sample",
       sample.spec.name, sample.trials(), planned);
}

GateReport gate(const Sample& baseline, const Sample& current, const GateRules& rules) {
  refuse_other_meaning(baseline, current, kHint);
  refuse_unfinished(current);
  for (const design::Arm& arm : baseline.spec.arms) {
    if (has_arm(current, arm.name)) continue;
    fail(ErrorCode::bad_input, "the campaign lacks arm '{}' of the baseline; run it, or {}", arm.name, kHint);
  }
  GateReport report;
  report.campaign = current.spec.name;
  report.alpha = rules.alpha;
  report.differences = differences(baseline, current);
  for (const design::Arm& arm : current.spec.arms) {
    if (!has_arm(baseline, arm.name)) report.new_arms.push_back(arm.name);
  }
  for (const design::Arm& arm : baseline.spec.arms) {
    report.arms.push_back({arm.name,
                           one_limit({&baseline, arm.name}, {&current, arm.name}, rules.alpha * range_share),
                           shifts_of(baseline.references.at(arm.name), current.references.at(arm.name))});
  }
  report.lines = lines_of(baseline, current, rules, report.arms);
  decide(report.lines, rules.alpha);
  add_flips(report, baseline, current);
  return report;
}

}  // namespace bitrift::analyze
