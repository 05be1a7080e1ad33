#include "analyze/comparison.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "analyze/observations.h"
#include "analyze/order.h"
#include "analyze/rates/total_estimate.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;

std::vector<std::string> arms_of(const record::CampaignSpec& spec, const ComparisonOptions& options) {
  std::vector<std::string> names = options.arms;
  if (names.empty()) {
    for (const record::Arm& arm : spec.arms) names.push_back(arm.name);
  }
  if (names.size() < 2) {
    fail(ErrorCode::bad_input, "a comparison needs two arms, but {}",
         options.arms.empty() ? "this campaign has only one" : "only one is given");
  }
  const record::Arm& first = spec.arms[spec.arm_index(names.front())];
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i)) {
      fail(ErrorCode::bad_input, "arm '{}' is given twice", names[i]);
    }
    const record::Arm& arm = spec.arms[spec.arm_index(names[i])];
    if (spec.files.at(arm.file).base == spec.files.at(first.file).base) continue;
    fail(ErrorCode::bad_input,
         "arms '{}' and '{}' start from different bases: the same draw is not the same fault in them; name "
         "arms "
         "of one base with --arms",
         first.name, arm.name);
  }
  return names;
}

/// The draws of every stratum that both arms have.
struct Paired {
  std::vector<StratumPairs> strata;
  std::vector<StratumClasses> first, second;
  bool sized = true;  ///< the sizes of all strata are known
  double share_seen = 0;
};

class Pairing {
 public:
  Pairing(const Observations& seen, const Order& order) : seen_(seen), order_(order) {}

  [[nodiscard]] Paired of(const std::string& first, const std::string& second, OutcomeClass outcome) const {
    Paired paired;
    double bits = 0;
    double with_pairs = 0;
    for (std::size_t at = 0; at < order_.names.size(); ++at) {
      const StratumSeen* const one = cell(first, at);
      const StratumSeen* const other = cell(second, at);
      const std::size_t draws =
          one == nullptr || other == nullptr ? 0 : std::min(one->trials(), other->trials());
      StratumPairs pairs;
      pairs.bits = draws > 0 ? one->bits : order_.bits[at];
      paired.sized = paired.sized && pairs.bits > 0;
      bits += static_cast<double>(pairs.bits);
      with_pairs += draws > 0 ? static_cast<double>(pairs.bits) : 0;
      if (draws > 0) {
        pairs.first = one->hits(outcome, draws);
        pairs.second = other->hits(outcome, draws);
      }
      paired.first.push_back({pairs.bits, pairs.first, draws > 0});
      paired.second.push_back({pairs.bits, pairs.second, draws > 0});
      paired.strata.push_back(std::move(pairs));
    }
    paired.share_seen = bits > 0 ? with_pairs / bits : 0;
    return paired;
  }

 private:
  [[nodiscard]] const StratumSeen* cell(const std::string& arm, std::size_t at) const {
    const auto found = seen_.cells.find({arm, order_.names[at]});
    return found == seen_.cells.end() ? nullptr : &found->second;
  }

  const Observations& seen_;
  const Order& order_;
};

double rate_of(const Order& order, const std::vector<StratumClasses>& strata) {
  return total_estimate(order.rounds, strata, 2).at(1);
}

ComparedPair compare_pair(const Pairing& pairing, const Order& order, ComparedPair pair, double confidence) {
  const Paired paired = pairing.of(pair.first, pair.second, pair.outcome);
  if (paired.share_seen <= 0) {
    fail(ErrorCode::conflict, "arms '{}' and '{}' have no draw in common yet", pair.first, pair.second);
  }
  pair.share_seen = paired.sized ? paired.share_seen : 0;
  pair.first_rate = rate_of(order, paired.first);
  pair.second_rate = rate_of(order, paired.second);
  pair.difference = pair.second_rate - pair.first_rate;
  if (paired.sized) {
    pair.paired = paired_difference(order.rounds, paired.strata, confidence);
    pair.paired.interval = stretched_to(pair.difference, pair.paired.interval);
  } else {  // Nothing is known of a stratum whose size is not known.
    pair.paired = {count_pairs(paired.strata), {-1, 1}, 1, 1};
  }
  return pair;
}

std::string answer(const ComparedPair& pair, double margin) {
  return text(ComparisonAnswer{pair.verdict, pair.outcome, pair.first, pair.second, pair.difference,
                               pair.paired.interval, margin});
}

}  // namespace

ArmComparison compare_arms(const std::vector<record::TrialRecord>& rows, const record::CampaignSpec& spec,
                           const Trust& trust, const std::vector<record::Round>& rounds,
                           const ComparisonOptions& options) {
  if (!(options.margin > 0 && options.margin < 1)) {
    fail(ErrorCode::bad_input, "a margin of {:g} points: give more than 0 and less than 100",
         100 * options.margin);
  }
  const std::vector<std::string> arms = arms_of(spec, options);
  const Observations seen = observe(rows, spec, trust);
  const Order order = order_of(spec, rounds, seen);
  const Pairing pairing(seen, order);
  ArmComparison comparison;
  comparison.confidence = spec.confidence;
  comparison.margin = options.margin;
  const auto outcomes =
      options.outcomes.empty() ? std::vector{OutcomeClass::sdc, OutcomeClass::crash} : options.outcomes;
  const std::size_t firsts = options.arms.empty() ? arms.size() : 1;
  std::vector<double> p_values;
  for (const OutcomeClass outcome : outcomes) {
    for (std::size_t i = 0; i < firsts; ++i) {
      for (std::size_t j = i + 1; j < arms.size(); ++j) {
        ComparedPair pair;
        pair.first = arms[i];
        pair.second = arms[j];
        pair.outcome = outcome;
        comparison.pairs.push_back(compare_pair(pairing, order, std::move(pair), spec.confidence));
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
          {"pairs", std::move(pairs)}};
}

}  // namespace bitrift::analyze
