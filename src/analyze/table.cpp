#include "analyze/table.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/ranges.h>

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;
using Cells = std::vector<std::string>;

constexpr std::size_t kWidth = 100;

// A share in % with one decimal. Only what is 0 or 1 is shown as such: a rate of 0.0 % beside a crash that
// was counted would look wrong.
std::string percent_text(double share) {
  const double percent = 100 * share;
  if (share > 0 && percent < 0.05) return "<0.1";
  if (share < 1 && percent >= 99.95) return ">99.9";
  return fmt::format("{:.1f}", percent);
}

std::string interval_text(const Interval& interval) {
  return fmt::format("[{:4.1f},{:5.1f}]", 100 * interval.low, 100 * interval.high);
}

std::vector<std::size_t> widths_of(const std::vector<Cells>& lines) {
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const Cells& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  return widths;
}

// Names to the left, the column of numbers `right_aligned` to the right; no blanks at line ends.
std::string aligned(const Cells& line, const std::vector<std::size_t>& widths, std::size_t right_aligned) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (i > 0) text += "  ";
    text += i == right_aligned ? fmt::format("{:>{}}", line[i], widths[i])
                               : fmt::format("{:<{}}", line[i], widths[i]);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

Cells key_cells(const Group& group, const std::vector<Dimension>& by) {
  Cells cells;
  for (const Dimension dimension : by) cells.push_back(group.key.at(key_name(dimension)));
  return cells;
}

const char* drawn_from(const Judging& judging) { return judging.strata->averaged_over(); }

// " of 6 (weighted by bits: 16.9 %)" where the rate is another than the share of the trials, by a point or
// more.
std::string weighted_text(const Group& group, OutcomeClass outcome, const Judging& judging) {
  constexpr double least = 0.01;
  const double share = static_cast<double>(group.counts.at(outcome)) / static_cast<double>(group.trials);
  const double rate = group.rates.at(outcome).estimate;
  if (std::abs(rate - share) < least) return "";
  return fmt::format(" of {} (weighted by {}: {} %)", group.trials, drawn_from(judging), percent_text(rate));
}

// "masked 31 = bitwise 30 + within_noise 1", one entry a class that occurs.
std::vector<std::string> reason_texts(const Group& group, const Judging& judging) {
  std::vector<std::string> texts;
  for (const OutcomeClass outcome : record::outcome_classes) {
    if (group.counts.at(outcome) == 0) continue;
    std::vector<std::pair<std::uint64_t, record::Reason>> parts;
    for (const auto& [reason, count] : group.reasons) {
      if (record::class_of(reason) == outcome) parts.emplace_back(count, reason);
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string text = fmt::format("{} {}{} =", name_of(outcome), group.counts.at(outcome),
                                   weighted_text(group, outcome, judging));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      text += fmt::format("{} {} {}", i == 0 ? "" : " +", name_of(parts[i].second), parts[i].first);
    }
    texts.push_back(text);
  }
  return texts;
}

// Joins entries by "; ", and breaks lines between entries where they would exceed kWidth.
std::string wrapped(const std::string& start, const std::vector<std::string>& entries) {
  std::string text;
  std::string line = start;
  bool first = true;
  for (const std::string& entry : entries) {
    if (!first) {
      line += ";";
      if (line.size() + 1 + entry.size() > kWidth) {
        text += line + "\n";
        line = std::string(start.size(), ' ');
      } else {
        line += " ";
      }
    }
    line += entry;
    first = false;
  }
  return text + line + "\n";
}

std::string block(const std::vector<Cells>& lines, std::size_t count_column) {
  const auto widths = widths_of(lines);
  std::string text;
  for (const Cells& line : lines) text += aligned(line, widths, count_column);
  return text;
}

void add_rates(Cells& line, const std::map<OutcomeClass, Rate>& rates, IntervalKind kind) {
  for (const OutcomeClass outcome : record::outcome_classes) {
    const Rate& rate = rates.at(outcome);
    line.push_back(fmt::format("{:>5} {}", percent_text(rate.estimate), interval_text(rate.interval(kind))));
  }
}

std::string rates_block(const Summary& summary) {
  std::vector<Cells> lines(1);
  for (const Dimension dimension : summary.by) lines[0].emplace_back(key_name(dimension));
  const std::size_t count_column = lines[0].size();
  for (const char* name : {"n", "masked %", "SDC %", "crash %", "harmful %"}) lines[0].emplace_back(name);
  for (const Group& group : summary.groups) {
    Cells line = key_cells(group, summary.by);
    line.push_back(std::to_string(group.trials));
    add_rates(line, group.rates, summary.options.interval);
    line.push_back(!group.harmful ? ""
                   : group.harmful->low > 0
                       ? fmt::format("{:4.1f}-{:.1f}", 100 * group.harmful->low, 100 * group.harmful->high)
                       : fmt::format("<= {:.1f}", 100 * group.harmful->high));
    lines.push_back(line);
  }
  return block(lines, count_column);
}

// The strata of lines whose rates are means of very different ones.
std::string apart_block(const Summary& summary) {
  constexpr std::size_t most = 12;  // lines
  std::vector<Cells> lines(1);
  for (const Dimension dimension : summary.by) lines[0].emplace_back(key_name(dimension));
  const std::size_t count_column = lines[0].size() + 1;
  for (const char* name : {"stratum", "n", "masked %", "SDC %", "crash %"}) lines[0].emplace_back(name);
  std::size_t left_out = 0;
  std::size_t shown = 0;
  for (const Group& group : summary.groups) {
    if (group.apart.empty()) continue;
    if (++shown > most) {
      ++left_out;
      continue;
    }
    for (const StratumRates& one : group.apart) {
      Cells line = key_cells(group, summary.by);
      line.push_back(one.stratum);
      line.push_back(std::to_string(one.trials));
      add_rates(line, one.rates, summary.options.interval);
      lines.push_back(line);
    }
  }
  if (shown == 0) return "";
  std::string text = "\nMeans of strata that differ by more than their intervals; the strata one by one:\n" +
                     block(lines, count_column);
  if (left_out > 0) text += fmt::format("and those of {} more lines (--by stratum)\n", left_out);
  return text;
}

// Two rows for each group, so that six bands fit: the shares, and below them the bands.
std::string effects_block(const Summary& summary) {
  if (!summary.options.effects || summary.groups.empty()) return "";
  std::vector<Cells> lines(1);
  for (const Dimension dimension : summary.by) lines[0].emplace_back(key_name(dimension));
  for (const double points : effect_points) lines[0].push_back(fmt::format("> {:g}", points));
  lines[0].emplace_back("crash");
  for (const Group& group : summary.groups) {
    Cells line = key_cells(group, summary.by);
    Cells below(line.size());
    for (const Effect& effect : group.effects->beyond) {
      line.push_back(fmt::format("{:.1f}", 100 * effect.estimate));
      below.push_back(fmt::format("{:.1f}-{:.1f}", 100 * effect.band.low, 100 * effect.band.high));
    }
    line.push_back(fmt::format("{:.1f}", 100 * group.effects->crash));
    lines.push_back(line);
    lines.push_back(below);
  }
  return "\nTrials in % that lose more points of test accuracy against their golden run; those that crash "
         "have\n"
         "none. Anytime bands, which hold together for the limits of a line:\n" +
         block(lines, lines[0].size());
}

// The parts of a line that were never tried.
std::string unseen_block(const Summary& summary) {
  const char* const members = drawn_from(summary.judging);
  constexpr std::size_t most = 8;
  std::vector<std::string> entries;
  for (const Group& group : summary.groups) {
    if (group.unseen.empty()) continue;
    const std::string share = group.share_seen > 0
                                  ? fmt::format("{:.1f} % of its {}", 100 * (1 - group.share_seen), members)
                                  : "of unknown size";
    entries.push_back(fmt::format("{}: {} ({})", fmt::join(key_cells(group, summary.by), " "),
                                  fmt::join(group.unseen, ", "), share));
  }
  if (entries.empty()) return "";
  std::string text =
      "Strata without a trial, which estimates leave out and intervals count as anything from 0 to 100 %:\n";
  for (std::size_t i = 0; i < std::min(most, entries.size()); ++i) text += "  " + entries[i] + "\n";
  if (entries.size() > most) text += fmt::format("  and of {} more lines\n", entries.size() - most);
  return text;
}

// Strata in which no fault left a trace: harmless bits, or bits that nothing reads.
std::string all_bitwise_block(const Summary& summary) {
  if (summary.all_bitwise.empty()) return "";
  std::vector<std::string> entries;
  for (const AllBitwise& one : summary.all_bitwise)
    entries.push_back(fmt::format("{} {} ({})", one.arm, one.stratum, one.trials));
  return wrapped("All trials bitwise: ", entries) +
         "  These faults left no trace: what they alter does not matter, or the trainer does not read it.\n";
}

std::string left_out_block(const Summary& summary) {
  if (summary.left_out.empty()) return "";
  constexpr std::size_t most = 12;
  std::vector<std::string> entries = summary.left_out;
  if (entries.size() > most) {
    entries.resize(most);
    entries.push_back(fmt::format("and {} more (left_out in the summary)", summary.left_out.size() - most));
  }
  return wrapped("Left out, because the script does not load them in every arm: ", entries);
}

std::string interval_words(IntervalKind kind) {
  switch (kind) {
    case IntervalKind::wilson:
      return "Wilson's, for one look at this n (several strata: approximate)";
    case IntervalKind::clopper_pearson:
      return "Clopper-Pearson's, for one look at this n (several strata: approximate)";
    case IntervalKind::anytime:
      break;
  }
  return "valid at every look";
}

// The promise of the intervals.
std::string guarantee(const Summary& summary) {
  const std::string confidence = fmt::format("{:g} %", 100 * summary.confidence);
  const std::string kind = interval_words(summary.options.interval);
  if (summary.options.simultaneous) {
    return fmt::format(
        "Intervals {}.\nAll of this table hold together with {} ({:.4g} % each, Bonferroni).\n", kind,
        confidence, 100 * summary.each_confidence);
  }
  return fmt::format(
      "Intervals {}.\nEach of them alone holds with {} confidence; --simultaneous makes all hold together.\n",
      kind, confidence);
}

// Why a line of several strata differs from the same line of a campaign that was started with these draws.
std::string extension_note(const Summary& summary) {
  const bool several = std::any_of(summary.groups.begin(), summary.groups.end(),
                                   [](const Group& one) { return one.strata > 1; });
  if (!summary.extended || !several || summary.options.interval != IntervalKind::anytime) return "";
  return "Extended: the interval of a line over several strata takes the draws in the order in which they "
         "were\n"
         "planned, those of the extension last. It holds, but is not that of a campaign started with all of\n"
         "them, and can be wider if strata were added.\n";
}

// The trials that --where leaves out.
std::string restriction(const Summary& summary) {
  if (summary.options.where.empty()) return "";
  return fmt::format("Only {}: {} of these trials.\n", fmt::join(summary.options.where, " and "),
                     summary.wanted);
}

std::string reasons_block(const Summary& summary) {
  std::vector<Cells> lines;
  for (const Group& group : summary.groups) lines.push_back(key_cells(group, summary.by));
  if (lines.empty()) return "";
  const auto widths = widths_of(lines);
  std::string text = "\nOutcomes, counted:\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string start;
    for (std::size_t column = 0; column < lines[i].size(); ++column) {
      start += fmt::format("{:<{}}  ", lines[i][column], widths[column]);
    }
    text += wrapped(start, reason_texts(summary.groups[i], summary.judging));
  }
  return text;
}

// The rule by which outcomes were found.
std::string verdict_text(const Summary& summary) {
  std::vector<std::string> metrics;
  for (const record::Metric& metric : summary.judging.metrics) metrics.push_back(metric.name());
  const std::string at = fmt::format("evaluation {} of {} ({} steps after the resume)",
                                     summary.judging.horizon.value_or(summary.evaluations),
                                     summary.evaluations, summary.horizon_step);
  return fmt::format(
             "Judged at {} by {}.\nharmful: the share of faults beyond the true limit, which the envelope "
             "runs "
             "only estimate.\n\n",
             at, fmt::join(metrics, ", ")) +
         assurance_text(summary.assurance, summary.confidence);
}

// How SDCs developed, where runs have several evaluations.
std::string courses_block(const Summary& summary) {
  std::map<record::Course, std::uint64_t> all;
  for (const Group& group : summary.groups) {
    for (const auto& [course, count] : group.courses) all[course] += count;
  }
  if (all.empty()) return "";
  std::vector<std::string> parts;
  parts.reserve(all.size());
  for (const auto& [course, count] : all) parts.push_back(fmt::format("{} {}", name_of(course), count));
  return fmt::format("Courses of SDC: {}\n", fmt::join(parts, ", "));
}

// Three digits, but whole numbers in full.
std::string events_text(double events) {
  return events < 100 ? fmt::format("{:.3g}", events) : fmt::format("{:.0f}", events);
}

// Expected numbers of events, from a rate that bitrift does not know.
std::string field_block(const Summary& summary) {
  if (!summary.options.field_rate) return "";
  const double faults = *summary.options.field_rate;
  std::vector<Dimension> by;
  for (const Dimension dimension : summary.by) {
    if (!summary.pooled.empty() && summary.pooled.front().key.contains(key_name(dimension)))
      by.push_back(dimension);
  }
  std::vector<Cells> lines(1);
  for (const Dimension dimension : by) lines[0].emplace_back(key_name(dimension));
  const std::size_t count_column = lines[0].size();
  for (const char* name : {"n", "masked", "SDC", "crash"}) lines[0].emplace_back(name);
  for (const Group& group : summary.pooled) {
    Cells line = key_cells(group, by);
    line.push_back(std::to_string(group.trials));
    for (const OutcomeClass outcome : record::outcome_classes) {
      const Rate& rate = group.rates.at(outcome);
      const Interval& interval = rate.interval(summary.options.interval);
      line.push_back(fmt::format("{} [{}, {}]", events_text(faults * rate.estimate),
                                 events_text(faults * interval.low), events_text(faults * interval.high)));
    }
    lines.push_back(line);
  }
  return fmt::format(
             "\nExpected in 1,000 GPU-days with {:g} such faults (a rate that you gave, taken as exact):\n",
             faults) +
         block(lines, count_column);
}

// The last decision: the request, the result, and whether it was the end.
std::string rounds_text(const Summary& summary) {
  if (!summary.sampling || summary.rounds.empty()) return "";
  const record::Round& last = summary.rounds.back();
  std::string text = fmt::format("Asked: {} within +-{:g} points.", name_of(summary.sampling->target),
                                 100 * summary.sampling->half_width);
  if (const record::Reached* widest = last.widest()) {
    text += fmt::format(" Widest before round {}: +-{:.2f} ({}, {}{}{}).", last.number,
                        100 * widest->half_width, widest->arm, record::outcome_key(widest->outcome),
                        widest->stratum.empty() ? "" : ", ", widest->stratum);
  }
  text += last.stop ? fmt::format("\nStopped after round {}: {}.\n", last.number - 1, stop_text(*last.stop))
                    : fmt::format("\nRound {} is not followed by a decision yet.\n", last.number);
  return text;
}

record::Json interval_json(const Interval& interval) {
  return record::Json::array({record::number_to_json(interval.low), record::number_to_json(interval.high)});
}

}  // namespace

std::string table(const Summary& summary) {
  std::string text = rates_block(summary) + apart_block(summary) + effects_block(summary) +
                     field_block(summary) + reasons_block(summary) + courses_block(summary);
  text += fmt::format(
      "\n{} trials, {} canaries as expected; judge: {}. Rates are over uniform {} of a line's strata.\n",
      summary.trials, summary.canaries, name_of(summary.judging.judge), drawn_from(summary.judging));
  text += restriction(summary) + guarantee(summary) + extension_note(summary) + unseen_block(summary) +
          all_bitwise_block(summary) + left_out_block(summary);
  if (summary.trials < summary.planned) {
    text += fmt::format("Unfinished: {} of {} trials.\n", summary.trials, summary.planned);
  }
  if (summary.waiting > 0) {
    text += fmt::format("{} rows are excluded until every earlier draw has finished.\n", summary.waiting);
  }
  return text + rounds_text(summary) + verdict_text(summary) + table(summary.variations);
}

namespace {

record::Json rates_json(const std::map<OutcomeClass, Rate>& found, const Summary& summary) {
  const IntervalKind kind = summary.options.interval;
  record::Json rates;
  for (const auto& [outcome, rate] : found) {
    rates[name_of(outcome)] = {{"estimate", record::number_to_json(rate.estimate)},
                               {"interval", interval_json(rate.interval(kind))},
                               {"kind", name_of(kind)},
                               {"confidence", record::number_to_json(summary.each_confidence)},
                               {"anytime", interval_json(rate.anytime)},
                               {"wilson", interval_json(rate.wilson)}};
  }
  return rates;
}

// Bit numbers are written as numbers.
record::Json key_json(const Group& group) {
  record::Json key = group.key;
  if (const auto bit = group.key.find("bit"); bit != group.key.end()) key["bit"] = std::stoul(bit->second);
  return key;
}

record::Json counts_json(const std::map<OutcomeClass, std::uint64_t>& counted) {
  record::Json counts;
  for (const auto& [outcome, count] : counted) counts[name_of(outcome)] = count;
  return counts;
}

record::Json group_json(const Group& group, const Summary& summary) {
  record::Json reasons;
  for (const auto& [reason, count] : group.reasons) reasons[name_of(reason)] = count;
  record::Json value = {{"key", key_json(group)},
                        {"trials", group.trials},
                        {"waiting", group.waiting},
                        {"bits", group.bits},
                        {"unseen", group.unseen},
                        {"share_seen", record::number_to_json(group.share_seen)},
                        {"counts", counts_json(group.counts)},
                        {"reasons", reasons},
                        {"rates", rates_json(group.rates, summary)}};
  for (const auto& [course, count] : group.courses) value["courses"][name_of(course)] = count;
  if (group.harmful) {
    value["harmful"] = {{"interval", interval_json(*group.harmful)},
                        {"confidence", record::number_to_json(summary.each_confidence)}};
  }
  for (const StratumRates& one : group.apart) {
    value["apart"].push_back({{"stratum", one.stratum},
                              {"trials", one.trials},
                              {"counts", counts_json(one.counts)},
                              {"rates", rates_json(one.rates, summary)}});
  }
  if (group.effects) value["effects"] = to_json(*group.effects);
  return value;
}

record::Json field_json(const Summary& summary) {
  const double faults = summary.options.field_rate.value();
  record::Json groups = record::Json::array();
  for (const Group& group : summary.pooled) {
    record::Json expected;
    for (const auto& [outcome, rate] : group.rates) {
      const Interval& interval = rate.interval(summary.options.interval);
      expected[name_of(outcome)] = {
          {"estimate", record::number_to_json(faults * rate.estimate)},
          {"interval", interval_json({faults * interval.low, faults * interval.high})}};
    }
    groups.push_back({{"key", key_json(group)}, {"trials", group.trials}, {"expected", expected}});
  }
  return {{"faults", record::number_to_json(faults)}, {"gpu_days", 1000}, {"groups", groups}};
}

record::Json judging_json(const Summary& summary) {
  return {{"rule", rule_version},
          {"judge", summary.judging.judge},
          {"metrics", summary.judging.metrics},
          {"level", record::number_to_json(summary.judging.level)},
          {"horizon", summary.judging.horizon.value_or(summary.evaluations)},
          {"evaluations", summary.evaluations},
          {"step", summary.horizon_step}};
}

}  // namespace

record::Json to_json(const Summary& summary) {
  record::Json groups = record::Json::array();
  for (const Group& group : summary.groups) groups.push_back(group_json(group, summary));
  record::Json value = {{"schema", "bitrift/summary/2"},
                        {"campaign", summary.campaign},
                        {"seed", summary.seed},
                        {"confidence", record::number_to_json(summary.confidence)},
                        {"simultaneous", summary.options.simultaneous},
                        {"judging", judging_json(summary)},
                        {"by", dimension_names(summary.by)},
                        {"trials", summary.trials},
                        {"planned", summary.planned},
                        {"waiting", summary.waiting},
                        {"canaries", summary.canaries},
                        {"groups", groups}};
  if (summary.options.field_rate) value["field"] = field_json(summary);
  if (!summary.options.where.empty()) value["where"] = summary.options.where;
  for (const AllBitwise& one : summary.all_bitwise)
    value["all_bitwise"].push_back({{"arm", one.arm}, {"stratum", one.stratum}, {"trials", one.trials}});
  if (!summary.left_out.empty()) value["left_out"] = summary.left_out;
  for (const auto& [arm, assurance] : summary.assurance) value["arms"][arm] = to_json(assurance);
  if (!summary.variations.empty()) value["variations"] = to_json(summary.variations);
  if (summary.sampling && !summary.rounds.empty())
    value["sampling"] = record::sampling_state(summary.sampling.value(), summary.rounds.back());
  return value;
}

}  // namespace bitrift::analyze
