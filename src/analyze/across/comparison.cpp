#include "analyze/across/comparison.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "analyze/across/meaning.h"
#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::Json;
using record::OutcomeClass;

// Two arms to compare. kind: paired, where a draw is the same fault in both, even if an arm converts its
// values; absent: what the faults say.
struct ArmPair {
  std::string first, second;
  std::optional<ComparisonKind> kind = {};
};

void check_margin(double margin) {
  if (margin > 0 && margin < 1) return;
  fail(ErrorCode::bad_input, "a margin of {:g} points: give more than 0 and less than 100", 100 * margin);
}

std::vector<std::string> arms_of_one(const design::CampaignSpec& spec, const ComparisonOptions& options) {
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
         "of one base with --arm",
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

std::vector<ArmPair> arms_of_two(const Sample& first, const Sample& second,
                                 const ComparisonOptions& options) {
  if (options.arms.size() == 2) {
    (void)first.spec.arm_index(options.arms[0]);
    (void)second.spec.arm_index(options.arms[1]);
    return {{.first = options.arms[0], .second = options.arms[1]}};
  }
  if (!options.arms.empty()) {
    fail(ErrorCode::bad_input, "two campaigns are compared by one arm of each, but --arm gives {}",
         options.arms.size());
  }
  std::vector<ArmPair> pairs;
  for (const design::Arm& arm : first.spec.arms) {
    const auto same = [&](const design::Arm& one) { return one.name == arm.name; };
    if (std::any_of(second.spec.arms.begin(), second.spec.arms.end(), same))
      pairs.push_back({.first = arm.name, .second = arm.name});
  }
  if (pairs.empty()) {
    fail(ErrorCode::bad_input,
         "no arm has the same name in both campaigns; give an arm of each, as in --arm {},{}",
         first.spec.arms.front().name, second.spec.arms.front().name);
  }
  return pairs;
}

std::string shift_text(const std::string& first, const std::string& second, const Shift& shift) {
  return fmt::format("clean runs of arm {}: {}", second, shift.text("that of arm " + first));
}

// Compares every outcome of every pair of arms.
void compare_pairs(Comparison& comparison, const Sample& first, const Sample& second,
                   const std::vector<ArmPair>& arms, const std::vector<OutcomeClass>& asked) {
  std::vector<OneLimit> limits;
  for (const auto& [one, other, kind] : arms) {
    limits.push_back(one_limit({&first, one}, {&second, other}, (1 - comparison.confidence) * range_share));
    const auto of = [](const std::string& folder) { return folder.empty() ? "" : " of " + folder; };
    comparison.limits.push_back(
        fmt::format("An SDC of {}{} and {}{} is {} against harmless runs of its data order.", one,
                    of(comparison.first), other, of(comparison.second), limit_text(limits.back())));
  }
  const auto outcomes = asked.empty() ? std::vector{OutcomeClass::sdc, OutcomeClass::crash} : asked;
  std::vector<double> p_values;
  for (const OutcomeClass outcome : outcomes) {
    for (std::size_t at = 0; at < arms.size(); ++at) {
      const auto& [one, other, kind] = arms[at];
      LimitedDifference difference({&first, one}, {&second, other}, limits[at], outcome, {}, kind);
      const Interval interval = difference.interval(comparison.confidence);
      p_values.push_back(difference.p());
      comparison.pairs.push_back({one, other, outcome, std::move(difference), interval, p_values.back()});
    }
  }
  const std::vector<double> adjusted = holm(p_values);
  for (std::size_t i = 0; i < adjusted.size(); ++i) {
    ComparedArms& pair = comparison.pairs[i];
    pair.adjusted_p = adjusted[i];
    pair.verdict =
        comparison_verdict(pair.adjusted_p, pair.interval, comparison.confidence, comparison.margin);
  }
}

std::string answer(const Comparison& comparison, const ComparedArms& pair) {
  return text(ComparisonAnswer{pair.verdict, pair.outcome, comparison.first_name(pair),
                               comparison.second_name(pair), pair.difference.shown().difference(),
                               pair.interval, comparison.margin});
}

std::string counts_text(const ComparedArms& pair, const std::string& first, const std::string& second) {
  const RateDifference& rates = pair.difference.shown();
  if (rates.kind() == ComparisonKind::paired) {
    const PairCounts& counts = rates.counts();
    return fmt::format("  pairs        both {}, only {} {}, only {} {}, neither {}\n", counts.both, first,
                       counts.first_only, second, counts.second_only, counts.neither);
  }
  return fmt::format("  trials       {} {} of {}, {} {} of {}\n", first, rates.first_hits(),
                     rates.first_trials(), second, rates.second_hits(), rates.second_trials());
}

std::string faults_text(const RateDifference& rates, bool of_strata) {
  switch (rates.kind()) {
    case ComparisonKind::paired:
      return fmt::format("{} pairs of trials with the same {}", rates.counts().pairs(),
                         of_strata ? "element, bit and step" : "fault");
    case ComparisonKind::unpaired:
      return "other faults, in strata of the same sizes";
    case ComparisonKind::unrelated:
      break;
  }
  return "other faults, in strata of other sizes or with numbers of draws that depended on outcomes";
}

std::string block(const Comparison& comparison, const ComparedArms& pair) {
  const RateDifference& rates = pair.difference.shown();
  const std::string first = comparison.first_name(pair), second = comparison.second_name(pair);
  std::string out = fmt::format("{}: {} against {}, {}\n", name_of(pair.outcome), second, first,
                                faults_text(rates, !comparison.arm.empty()));
  out += counts_text(pair, first, second);
  out += fmt::format("  rates        {} {:.1f} %, {} {:.1f} %\n", first, 100 * rates.first_rate(), second,
                     100 * rates.second_rate());
  out += fmt::format("  difference   {:+.2f} points [{:+.2f}, {:+.2f}], p {} ({} after Holm)\n",
                     100 * rates.difference(), 100 * pair.interval.low, 100 * pair.interval.high,
                     p_text(pair.p), p_text(pair.adjusted_p));
  if (const auto exact = pair.difference.exact_p()) {
    const char* const test = rates.kind() == ComparisonKind::paired ? "exact McNemar"
                             : comparison.arm.empty() ? "Fisher, over strata and sizes of faults"
                                                      : "Fisher";
    out += fmt::format("  for one look p {} ({})\n", p_text(*exact), test);
  }
  if (rates.share_seen() < 1) {
    out += fmt::format("  not in both  strata with {:.1f} % of the bits; the interval covers them\n",
                       100 * (1 - rates.share_seen()));
  }
  return out + "  " + answer(comparison, pair) + "\n\n";
}

Json pair_json(const Comparison& comparison, const ComparedArms& pair) {
  const RateDifference& rates = pair.difference.shown();
  const auto exact = pair.difference.exact_p();
  Json value = to_json(rates);
  value.update({{"first", pair.first},
                {"second", pair.second},
                {"outcome", pair.outcome},
                {"interval", {pair.interval.low, pair.interval.high}},
                {"p", pair.p},
                {"adjusted_p", pair.adjusted_p},
                {"exact_p", exact ? Json(*exact) : Json()},
                {"share_seen", rates.share_seen()},
                {"verdict", name_of(pair.verdict)},
                {"answer", answer(comparison, pair)}});
  if (rates.kind() == ComparisonKind::paired) {
    const PairCounts& counts = rates.counts();
    value["pairs"] = counts.pairs();
    value["both"] = counts.both;
    value["neither"] = counts.neither;
  }
  return value;
}

// The arm of options, or the only one.
std::string one_arm(const design::CampaignSpec& spec, const ComparisonOptions& options) {
  if (options.arms.size() == 1) return spec.arms[spec.arm_index(options.arms.front())].name;
  if (options.arms.empty() && spec.arms.size() == 1) return spec.arms.front().name;
  std::vector<std::string> names;
  for (const design::Arm& arm : spec.arms) names.push_back(arm.name);
  fail(ErrorCode::bad_input, "strata are compared within one arm: name it with --arm ({})",
       fmt::join(names, ", "));
}

std::vector<std::string> strata_of_one(const design::CampaignSpec& spec, const ComparisonOptions& options) {
  if (spec.sampling) {
    fail(ErrorCode::bad_input,
         "campaign '{}' chooses its draws by outcomes ('sampling'): its strata cannot be compared draw "
         "by draw; give 'trials_per_stratum' instead",
         spec.name);
  }
  std::vector<std::string> known;
  for (const record::Stratum& stratum : spec.strata->strata()) known.push_back(stratum.name);
  for (const std::string& name : options.strata) {
    if (std::ranges::count(options.strata, name) > 1)
      fail(ErrorCode::bad_input, "stratum '{}' is given twice", name);
    if (std::ranges::count(known, name) == 0) {
      fail(ErrorCode::bad_input, "campaign '{}' has no stratum '{}'; it has {}", spec.name, name,
           fmt::join(known, ", "));
    }
  }
  if (options.strata.size() < 2)
    fail(ErrorCode::bad_input, "a comparison needs two strata, but only one is given");
  return options.strata;
}

// The only stratum of by_stratum().
constexpr const char* whole = "all";

// Strata of an arm as arms of a sample with one stratum.
Sample by_stratum(const Sample& sample, const std::string& arm, const std::vector<std::string>& strata) {
  Sample found = sample;
  found.cells.clear();
  found.references.clear();
  for (const std::string& name : strata) {
    const SampledCell* const cell = sample.cell(arm, name);
    if (cell == nullptr) fail(ErrorCode::conflict, "stratum '{}' has no trial in arm '{}' yet", name, arm);
    SampledCell& copy = found.cells[{name, whole}] = *cell;
    // Strata may hold faults of other sizes, which is a part of what is compared.
    std::ranges::fill(copy.sizes, no_size);
    found.references[name] = sample.references.at(arm);
  }
  PickedRound round = sample.order.rounds.front();
  const std::uint64_t draws =
      found.spec.exhaustive ? found.cells.begin()->second.bits : found.spec.trials_per_stratum;
  round.first = {0};
  round.share = {draws};
  round.picks = picks_shuffled(found.spec.seed, 0, round.share);
  found.order.names = {whole};
  found.order.bits = {found.cells.begin()->second.bits};
  found.order.rounds = {std::move(round)};
  return found;
}

std::string name_in(const std::string& arm, const std::string& folder) {
  return folder.empty() ? arm : arm + " of " + folder;
}

}  // namespace

std::string Comparison::first_name(const ComparedArms& pair) const { return name_in(pair.first, first); }

std::string Comparison::second_name(const ComparedArms& pair) const { return name_in(pair.second, second); }

Comparison compare_arms(const std::vector<record::TrialRecord>& rows, const design::CampaignSpec& spec,
                        const Trust& trust, const std::vector<record::Round>& rounds,
                        const ComparisonOptions& options) {
  check_margin(options.margin);
  const std::vector<std::string> arms = arms_of_one(spec, options);
  Comparison comparison{{}, {}, spec.confidence, options.margin};
  comparison.sample = std::make_shared<const Sample>(sample_of(rows, spec, trust, rounds, {}));
  std::vector<ArmPair> pairs;
  for (std::size_t i = 0; i < (options.arms.empty() ? arms.size() : 1); ++i) {
    for (std::size_t j = i + 1; j < arms.size(); ++j) {
      refuse_without_pairs(*comparison.sample, arms[i], arms[j]);
      pairs.push_back({arms[i], arms[j], ComparisonKind::paired});
    }
  }
  compare_pairs(comparison, *comparison.sample, *comparison.sample, pairs, options.outcomes);
  return comparison;
}

Comparison compare_strata(const std::vector<record::TrialRecord>& rows, const design::CampaignSpec& spec,
                          const Trust& trust, const std::vector<record::Round>& rounds,
                          const ComparisonOptions& options) {
  check_margin(options.margin);
  const std::string arm = one_arm(spec, options);
  const std::vector<std::string> strata = strata_of_one(spec, options);
  Comparison comparison{{}, {}, spec.confidence, options.margin};
  comparison.arm = arm;
  comparison.sample =
      std::make_shared<const Sample>(by_stratum(sample_of(rows, spec, trust, rounds, {}), arm, strata));
  const Sample& sample = *comparison.sample;
  std::vector<ArmPair> pairs;
  for (std::size_t i = 1; i < strata.size(); ++i) {
    const bool sized = sample.cells.at({strata[0], whole}).bits == sample.cells.at({strata[i], whole}).bits;
    if (spec.exhaustive && !sized) {
      fail(ErrorCode::bad_input,
           "strata '{}' and '{}' of an exhaustive campaign have different sizes; their rates are "
           "exact (bitrift analyze --by stratum)",
           strata[0], strata[i]);
    }
    const bool same = sized && spec.strata->draws_of(strata[0]) == spec.strata->draws_of(strata[i]);
    pairs.push_back({strata[0], strata[i], same ? std::optional(ComparisonKind::paired) : std::nullopt});
  }
  compare_pairs(comparison, sample, sample, pairs, options.outcomes);
  return comparison;
}

Comparison compare_campaigns(const Sample& first, const std::string& first_name, const Sample& second,
                             const std::string& second_name, const ComparisonOptions& options) {
  check_margin(options.margin);
  refuse_other_meaning(first, second, "compare campaigns whose specs agree there");
  Comparison comparison{first_name, second_name, first.spec.confidence, options.margin};
  comparison.differences = differences(first, second);
  const std::vector<ArmPair> arms = arms_of_two(first, second, options);
  for (const auto& [one, other, kind] : arms) {
    for (const Shift& shift : shifts_of(first.references.at(one), second.references.at(other)))
      comparison.differences.push_back(shift_text(one, other, shift));
  }
  compare_pairs(comparison, first, second, arms, options.outcomes);
  return comparison;
}

std::string text(const Comparison& comparison) {
  std::string out;
  for (const std::string& difference : comparison.differences) out += "differs  " + difference + "\n";
  out += comparison.differences.empty() ? "" : "\n";
  for (const ComparedArms& pair : comparison.pairs) out += block(comparison, pair);
  const bool judged = std::ranges::any_of(comparison.pairs, [](const ComparedArms& one) {
    return one.outcome != OutcomeClass::crash;  // crashes need no limit
  });
  for (const std::string& limit : judged ? comparison.limits : std::vector<std::string>())
    out += limit + "\n";
  return out +
         fmt::format(
             "Rates and differences are weighted by the bits of the strata. Each interval holds with {:g} % "
             "confidence at\n"
             "every look. Holm's procedure covers all comparisons above together.\n",
             100 * comparison.confidence);
}

Json to_json(const Comparison& comparison) {
  Json value = {{"schema", "bitrift/comparison/1"},
                {"confidence", comparison.confidence},
                {"margin", comparison.margin},
                {"limits", comparison.limits},
                {"pairs", Json::array()}};
  for (const ComparedArms& pair : comparison.pairs) value["pairs"].push_back(pair_json(comparison, pair));
  if (!comparison.arm.empty()) value["arm"] = comparison.arm;
  if (comparison.first.empty()) return value;
  value.update(
      {{"first", comparison.first}, {"second", comparison.second}, {"differences", comparison.differences}});
  return value;
}

}  // namespace bitrift::analyze
