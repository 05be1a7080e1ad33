#include "analyze/across/campaign_comparison.h"

#include <algorithm>

#include <fmt/format.h>

#include "analyze/across/meaning.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::Json;
using record::OutcomeClass;
using ArmPair = std::pair<std::string, std::string>;

std::vector<ArmPair> arms_of(const Sample& first, const Sample& second, const ComparisonOptions& options) {
  if (options.arms.size() == 2) {
    (void)first.spec.arm_index(options.arms[0]);
    (void)second.spec.arm_index(options.arms[1]);
    return {{options.arms[0], options.arms[1]}};
  }
  if (!options.arms.empty()) {
    fail(ErrorCode::bad_input, "two campaigns are compared by one arm of each, but --arms gives {}",
         options.arms.size());
  }
  std::vector<ArmPair> pairs;
  for (const design::Arm& arm : first.spec.arms) {
    const auto same = [&](const design::Arm& one) { return one.name == arm.name; };
    if (std::any_of(second.spec.arms.begin(), second.spec.arms.end(), same))
      pairs.emplace_back(arm.name, arm.name);
  }
  if (pairs.empty()) {
    fail(ErrorCode::bad_input,
         "no arm has the same name in both campaigns; give an arm of each, as in --arms {},{}",
         first.spec.arms.front().name, second.spec.arms.front().name);
  }
  return pairs;
}

std::string shift_text(const std::string& first, const std::string& second, const Shift& shift) {
  return fmt::format("clean runs of arm {}: {}", second, shift.text("that of arm " + first));
}

const char* meaning_of(ComparisonKind kind) {
  switch (kind) {
    case ComparisonKind::paired:
      return "the same faults in both, paired";
    case ComparisonKind::unpaired:
      return "other faults, in strata of the same sizes";
    case ComparisonKind::unrelated:
      break;
  }
  return "other faults, in strata of other sizes or with numbers of draws that depended on outcomes";
}

std::string answer(const CampaignComparison& comparison, const ComparedCampaigns& line) {
  return text(ComparisonAnswer{line.verdict, line.outcome,
                               fmt::format("{} of {}", line.first, comparison.first),
                               fmt::format("{} of {}", line.second, comparison.second),
                               line.difference.shown().difference(), line.interval, comparison.margin});
}

std::string block(const CampaignComparison& comparison, const ComparedCampaigns& line) {
  const RateDifference& rates = line.difference.shown();
  std::string out = fmt::format("{}: {} of {} against {} of {}; {}\n", name_of(line.outcome), line.second,
                                comparison.second, line.first, comparison.first, meaning_of(rates.kind()));
  out += fmt::format("  trials       {} of {} against {} of {}\n", rates.second_hits(), rates.second_trials(),
                     rates.first_hits(), rates.first_trials());
  if (rates.kind() == ComparisonKind::paired) {
    const PairCounts& counts = rates.counts();
    out += fmt::format("  pairs        both {}, only the first {}, only the second {}, neither {}\n",
                       counts.both, counts.first_only, counts.second_only, counts.neither);
  }
  out += fmt::format("  rates        {:.1f} % against {:.1f} %\n", 100 * rates.second_rate(),
                     100 * rates.first_rate());
  out += fmt::format("  difference   {:+.2f} points [{:+.2f}, {:+.2f}], p {} ({} after Holm)\n",
                     100 * rates.difference(), 100 * line.interval.low, 100 * line.interval.high,
                     p_text(line.p), p_text(line.adjusted_p));
  if (const auto exact = line.difference.exact_p()) {
    out += fmt::format(
        "  for one look p {} ({})\n", p_text(*exact),
        rates.kind() == ComparisonKind::paired ? "exact McNemar" : "Fisher, over strata and sizes of faults");
  }
  if (rates.share_seen() < 1) {
    out += fmt::format("  not in both  strata with {:.1f} % of the bits; the interval covers them\n",
                       100 * (1 - rates.share_seen()));
  }
  return out + "  " + answer(comparison, line) + "\n\n";
}

Json line_json(const ComparedCampaigns& line) {
  const RateDifference& rates = line.difference.shown();
  const auto exact = line.difference.exact_p();
  Json value = to_json(rates);
  value.update({{"first", line.first},
                {"second", line.second},
                {"outcome", line.outcome},
                {"interval", {line.interval.low, line.interval.high}},
                {"p", line.p},
                {"adjusted_p", line.adjusted_p},
                {"exact_p", exact ? Json(*exact) : Json()},
                {"share_seen", rates.share_seen()},
                {"verdict", name_of(line.verdict)}});
  if (rates.kind() == ComparisonKind::paired) {
    const PairCounts& counts = rates.counts();
    value["pairs"] = counts.pairs();
    value["both"] = counts.both;
    value["neither"] = counts.neither;
  }
  return value;
}

}  // namespace

CampaignComparison compare_campaigns(const Sample& first, const std::string& first_name, const Sample& second,
                                     const std::string& second_name, const ComparisonOptions& options) {
  if (!(options.margin > 0 && options.margin < 1)) {
    fail(ErrorCode::bad_input, "a margin of {:g} points: give more than 0 and less than 100",
         100 * options.margin);
  }
  refuse_other_meaning(first, second, "compare campaigns whose specs agree there");
  CampaignComparison comparison;
  comparison.first = first_name;
  comparison.second = second_name;
  comparison.confidence = first.spec.confidence;
  comparison.margin = options.margin;
  comparison.differences = differences(first, second);
  const auto outcomes =
      options.outcomes.empty() ? std::vector{OutcomeClass::sdc, OutcomeClass::crash} : options.outcomes;
  std::vector<double> p_values;
  const std::vector<ArmPair> arms = arms_of(first, second, options);
  std::vector<OneLimit> limits;
  for (const auto& [one, other] : arms) {
    limits.push_back(one_limit({&first, one}, {&second, other}, (1 - comparison.confidence) * range_share));
    comparison.limits.push_back(
        fmt::format("An SDC of {} of {} and {} of {} is {} against harmless runs of its data order.", one,
                    first_name, other, second_name, limit_text(limits.back())));
    for (const Shift& shift : shifts_of(first.references.at(one), second.references.at(other)))
      comparison.differences.push_back(shift_text(one, other, shift));
  }
  for (const OutcomeClass outcome : outcomes) {
    for (std::size_t at = 0; at < arms.size(); ++at) {
      const auto& [one, other] = arms[at];
      LimitedDifference difference({&first, one}, {&second, other}, limits[at], outcome);
      const Interval interval = difference.interval(comparison.confidence);
      p_values.push_back(difference.p());
      comparison.lines.push_back({one, other, outcome, std::move(difference), interval, p_values.back()});
    }
  }
  const std::vector<double> adjusted = holm(p_values);
  for (std::size_t i = 0; i < adjusted.size(); ++i) {
    ComparedCampaigns& line = comparison.lines[i];
    line.adjusted_p = adjusted[i];
    line.verdict =
        comparison_verdict(line.adjusted_p, line.interval, comparison.confidence, comparison.margin);
  }
  return comparison;
}

std::string text(const CampaignComparison& comparison) {
  std::string out;
  for (const std::string& difference : comparison.differences) out += "differs  " + difference + "\n";
  out += comparison.differences.empty() ? "" : "\n";
  for (const ComparedCampaigns& line : comparison.lines) out += block(comparison, line);
  const bool judged =
      std::any_of(comparison.lines.begin(), comparison.lines.end(), [](const ComparedCampaigns& one) {
        return one.outcome != OutcomeClass::crash;  // which needs no limit
      });
  for (const std::string& limit : judged ? comparison.limits : std::vector<std::string>())
    out += limit + "\n";
  return out +
         fmt::format(
             "Rates are weighted by the bits of the strata. Each interval holds with {:g} % confidence at\n"
             "every look. Holm's procedure covers all comparisons above together.\n",
             100 * comparison.confidence);
}

Json to_json(const CampaignComparison& comparison) {
  Json lines = Json::array();
  for (const ComparedCampaigns& line : comparison.lines) {
    lines.push_back(line_json(line));
    lines.back()["answer"] = answer(comparison, line);
  }
  return {{"schema", "bitrift/comparison/1"}, {"first", comparison.first},
          {"second", comparison.second},      {"confidence", comparison.confidence},
          {"margin", comparison.margin},      {"differences", comparison.differences},
          {"limits", comparison.limits},      {"pairs", std::move(lines)}};
}

}  // namespace bitrift::analyze
