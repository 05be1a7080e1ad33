#include "analyze/across/arm_comparison.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/ranges.h>

#include "analyze/across/one_limit.h"
#include "analyze/across/sample.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;

std::vector<std::string> arms_of(const design::CampaignSpec& spec, const ComparisonOptions& options) {
  std::vector<std::string> names = options.arms;
  if (names.empty()) {
    for (const design::Arm& arm : spec.arms) names.push_back(arm.name);
  }
  if (names.size() < 2) {
    fail(ErrorCode::bad_input, "a comparison needs two arms, but {}",
         options.arms.empty() ? "this campaign has only one" : "only one is given");
  }
  const design::Arm& first = spec.arms[spec.arm_index(names.front())];
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i)) {
      fail(ErrorCode::bad_input, "arm '{}' is given twice", names[i]);
    }
    const design::Arm& arm = spec.arms[spec.arm_index(names[i])];
    if (spec.files.at(arm.file).base == spec.files.at(first.file).base) continue;
    fail(ErrorCode::bad_input,
         "arms '{}' and '{}' start from different bases: the same draw is not the same fault in them; name "
         "arms "
         "of one base with --arms",
         first.name, arm.name);
  }
  return names;
}

void refuse_without_pairs(const Sample& sample, const std::string& first, const std::string& second) {
  const auto& names = sample.order.names;
  const bool any = std::any_of(names.begin(), names.end(), [&](const std::string& stratum) {
    return sample.cell(first, stratum) != nullptr && sample.cell(second, stratum) != nullptr;
  });
  if (!any) fail(ErrorCode::conflict, "arms '{}' and '{}' have no draw in common yet", first, second);
}

ComparedPair compare_pair(const Sample& sample, const OneLimit& limit, ComparedPair pair) {
  const Side first{&sample, pair.first};
  const Side second{&sample, pair.second};
  // A draw is the same fault in both, even if an arm converts its values.
  const LimitedDifference difference(first, second, limit, pair.outcome, {}, ComparisonKind::paired);
  const RateDifference& shown = difference.shown();
  pair.share_seen = shown.share_seen();
  pair.first_rate = shown.first_rate();
  pair.second_rate = shown.second_rate();
  pair.difference = shown.difference();
  const PairCounts& counts = shown.counts();
  pair.paired = {counts, difference.interval(sample.spec.confidence), difference.p(),
                 exact_mcnemar(counts.first_only, counts.second_only)};
  return pair;
}

std::string answer(const ComparedPair& pair, double margin) {
  return text(ComparisonAnswer{pair.verdict, pair.outcome, pair.first, pair.second, pair.difference,
                               pair.paired.interval, margin});
}

}  // namespace

ArmComparison compare_arms(const std::vector<record::TrialRecord>& rows, const design::CampaignSpec& spec,
                           const Trust& trust, const std::vector<record::Round>& rounds,
                           const ComparisonOptions& options) {
  if (!(options.margin > 0 && options.margin < 1)) {
    fail(ErrorCode::bad_input, "a margin of {:g} points: give more than 0 and less than 100",
         100 * options.margin);
  }
  const std::vector<std::string> arms = arms_of(spec, options);
  const Sample sample = sample_of(rows, spec, trust, rounds, {});
  ArmComparison comparison;
  comparison.confidence = spec.confidence;
  comparison.margin = options.margin;
  const auto outcomes =
      options.outcomes.empty() ? std::vector{OutcomeClass::sdc, OutcomeClass::crash} : options.outcomes;
  const std::size_t firsts = options.arms.empty() ? arms.size() : 1;
  std::map<std::pair<std::string, std::string>, OneLimit> limits;
  for (std::size_t i = 0; i < firsts; ++i) {
    for (std::size_t j = i + 1; j < arms.size(); ++j) {
      refuse_without_pairs(sample, arms[i], arms[j]);
      const OneLimit limit =
          one_limit({&sample, arms[i]}, {&sample, arms[j]}, (1 - spec.confidence) * range_share);
      comparison.limits.push_back(
          fmt::format("An SDC of {} and {} is {} against harmless runs of its data order.", arms[i], arms[j],
                      limit_text(limit)));
      limits.emplace(std::pair(arms[i], arms[j]), limit);
    }
  }
  std::vector<double> p_values;
  for (const OutcomeClass outcome : outcomes) {
    for (std::size_t i = 0; i < firsts; ++i) {
      for (std::size_t j = i + 1; j < arms.size(); ++j) {
        ComparedPair pair;
        pair.first = arms[i];
        pair.second = arms[j];
        pair.outcome = outcome;
        comparison.pairs.push_back(compare_pair(sample, limits.at({arms[i], arms[j]}), std::move(pair)));
        p_values.push_back(comparison.pairs.back().paired.p);
      }
    }
  }
  const std::vector<double> adjusted = holm(p_values);
  for (std::size_t i = 0; i < adjusted.size(); ++i) {
    ComparedPair& pair = comparison.pairs[i];
    pair.adjusted_p = adjusted[i];
    pair.verdict = comparison_verdict(pair.adjusted_p, pair.paired.interval, spec.confidence, options.margin);
  }
  return comparison;
}

std::string text(const ArmComparison& comparison) {
  std::string out;
  for (const ComparedPair& pair : comparison.pairs) {
    const PairCounts& counts = pair.paired.counts;
    out += fmt::format("{}: {} against {}, {} pairs of trials with the same fault\n", name_of(pair.outcome),
                       pair.second, pair.first, counts.pairs());
    out += fmt::format("  pairs        both {}, only {} {}, only {} {}, neither {}\n", counts.both,
                       pair.first, counts.first_only, pair.second, counts.second_only, counts.neither);
    out += fmt::format("  rates        {} {:.1f} %, {} {:.1f} %\n", pair.first, 100 * pair.first_rate,
                       pair.second, 100 * pair.second_rate);
    out += fmt::format("  difference   {:+.2f} points [{:+.2f}, {:+.2f}], p {} ({} after Holm)\n",
                       100 * pair.difference, 100 * pair.paired.interval.low, 100 * pair.paired.interval.high,
                       p_text(pair.paired.p), p_text(pair.adjusted_p));
    if (pair.share_seen < 1) {
      out += fmt::format("  no pair yet  in strata with {:.1f} % of the bits; the interval covers them\n",
                         100 * (1 - pair.share_seen));
    }
    out += "  " + answer(pair, comparison.margin) + "\n\n";
  }
  const bool judged =
      std::any_of(comparison.pairs.begin(), comparison.pairs.end(), [](const ComparedPair& one) {
        return one.outcome != OutcomeClass::crash;  // which needs no limit
      });
  for (const std::string& limit : judged ? comparison.limits : std::vector<std::string>())
    out += limit + "\n";
  out += fmt::format(
      "Rates and differences are weighted by the bits of the strata. Each interval holds with {:g} % "
      "confidence at\n"
      "every look. Holm's procedure covers all comparisons above together.\n",
      100 * comparison.confidence);
  return out;
}

record::Json to_json(const ArmComparison& comparison) {
  record::Json pairs = record::Json::array();
  for (const ComparedPair& pair : comparison.pairs) {
    const PairCounts& counts = pair.paired.counts;
    pairs.push_back({{"first", pair.first},
                     {"second", pair.second},
                     {"outcome", name_of(pair.outcome)},
                     {"kind", "paired"},
                     {"pairs", counts.pairs()},
                     {"both", counts.both},
                     {"first_only", counts.first_only},
                     {"second_only", counts.second_only},
                     {"neither", counts.neither},
                     {"first_rate", pair.first_rate},
                     {"second_rate", pair.second_rate},
                     {"difference", pair.difference},
                     {"interval", {pair.paired.interval.low, pair.paired.interval.high}},
                     {"p", pair.paired.p},
                     {"adjusted_p", pair.adjusted_p},
                     {"mcnemar_p", pair.paired.mcnemar},
                     {"share_seen", pair.share_seen},
                     {"verdict", name_of(pair.verdict)},
                     {"answer", answer(pair, comparison.margin)}});
  }
  return {{"schema", "bitrift/comparison/1"},
          {"confidence", comparison.confidence},
          {"margin", comparison.margin},
          {"limits", comparison.limits},
          {"pairs", std::move(pairs)}};
}

}  // namespace bitrift::analyze
