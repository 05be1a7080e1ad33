// A summary as text and as JSON.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "analyze/summary.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;
using Line = std::vector<std::string>;

constexpr std::array kClasses = {OutcomeClass::masked, OutcomeClass::sdc, OutcomeClass::crash};
constexpr std::size_t kWidth = 100;

// The key of a group's map that a dimension of `by` fills.
std::string key_name(const std::string& dimension) { return dimension == "strategy" ? "arm" : dimension; }

std::string interval_text(const Interval& interval) {
  return fmt::format("[{:4.1f}, {:5.1f}]", 100 * interval.low, 100 * interval.high);
}

std::vector<std::size_t> widths_of(const std::vector<Line>& lines) {
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  return widths;
}

// Names to the left, the column of numbers `right_aligned` to the right; no blanks at line ends.
std::string aligned(const Line& line, const std::vector<std::size_t>& widths, std::size_t right_aligned) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (i > 0) text += "  ";
    text += i == right_aligned ? fmt::format("{:>{}}", line[i], widths[i])
                               : fmt::format("{:<{}}", line[i], widths[i]);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

Line key_cells(const Group& group, const std::vector<std::string>& by) {
  Line cells;
  for (const std::string& dimension : by) cells.push_back(group.key.at(key_name(dimension)));
  return cells;
}

// "masked 31 = bitwise 30 + within_noise 1", one entry a class that occurs.
std::vector<std::string> reason_texts(const Group& group) {
  std::vector<std::string> texts;
  for (const OutcomeClass outcome : kClasses) {
    if (group.counts.at(outcome) == 0) continue;
    std::vector<std::pair<std::uint64_t, record::Reason>> parts;
    for (const auto& [reason, count] : group.reasons) {
      if (record::class_of(reason) == outcome) parts.emplace_back(count, reason);
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::string text = fmt::format("{} {} =", record::outcome_class_name(outcome), group.counts.at(outcome));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      text +=
          fmt::format("{} {} {}", i == 0 ? "" : " +", record::reason_name(parts[i].second), parts[i].first);
    }
    texts.push_back(text);
  }
  return texts;
}

// Entries joined by "; ", broken between entries when a line would pass kWidth.
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

std::string rates_block(const Summary& summary) {
  std::vector<Line> lines(1);
  for (const std::string& dimension : summary.by) lines[0].push_back(key_name(dimension));
  const std::size_t count_column = lines[0].size();
  for (const char* name : {"n", "masked %", "SDC %", "crash %", "interval"}) lines[0].emplace_back(name);
  for (const Group& group : summary.groups) {
    Line line = key_cells(group, summary.by);
    line.push_back(std::to_string(group.trials));
    Line below(line.size());
    for (const OutcomeClass outcome : kClasses) {
      const Rate& rate = group.rates.at(outcome);
      line.push_back(fmt::format("{:5.1f} {}", 100 * rate.estimate, interval_text(rate.fixed)));
      below.push_back(fmt::format("{:5} {}", "", interval_text(rate.anytime)));
    }
    line.emplace_back("Wilson");
    below.emplace_back("anytime");
    lines.push_back(line);
    lines.push_back(below);
  }
  const auto widths = widths_of(lines);
  std::string text;
  for (const Line& line : lines) text += aligned(line, widths, count_column);
  return text;
}

std::string reasons_block(const Summary& summary) {
  std::vector<Line> lines;
  for (const Group& group : summary.groups) lines.push_back(key_cells(group, summary.by));
  if (lines.empty()) return "";
  const auto widths = widths_of(lines);
  std::string text = "\nOutcomes, counted:\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string start;
    for (std::size_t column = 0; column < lines[i].size(); ++column) {
      start += fmt::format("{:<{}}  ", lines[i][column], widths[column]);
    }
    text += wrapped(start, reason_texts(summary.groups[i]));
  }
  return text;
}

// The last decision: what was asked, what was reached, and whether that was the end.
std::string rounds_text(const Summary& summary) {
  if (!summary.sampling || summary.rounds.empty()) return "";
  const record::Round& last = summary.rounds.back();
  std::string text = fmt::format("Asked: {} within +-{:g} points.", summary.sampling->target,
                                 100 * summary.sampling->half_width);
  if (const record::Reached* widest = last.widest()) {
    text += fmt::format(" Widest before round {}: +-{:.2f} ({}, {}{}{}).", last.number,
                        100 * widest->half_width, widest->arm, record::outcome_key(widest->outcome),
                        widest->stratum.empty() ? "" : ", ", widest->stratum);
  }
  text += last.stop.empty()
              ? fmt::format("\nRound {} is not followed by a decision yet.\n", last.number)
              : fmt::format("\nStopped after round {}: {}.\n", last.number - 1, stop_text(last));
  return text;
}

record::Json interval_json(const Interval& interval) {
  return record::Json::array({record::number_to_json(interval.low), record::number_to_json(interval.high)});
}

}  // namespace

std::string table(const Summary& summary) {
  std::string text = rates_block(summary) + reasons_block(summary);
  text += fmt::format(
      "\n{} trials, {} canaries as expected; judge: {}. Rates are over uniform bits of a line's "
      "strata.\n"
      "Intervals of {:g} %: Wilson is for one look at this n (several strata: approximate); anytime holds\n"
      "at every look at once.\n",
      summary.trials, summary.canaries, summary.judge, 100 * summary.confidence);
  if (summary.trials < summary.planned) {
    text += fmt::format("Unfinished: {} of {} trials; strata that have none yet are not in these rates.\n",
                        summary.trials, summary.planned);
  }
  if (summary.waiting > 0) {
    text += fmt::format("{} rows wait behind a draw that has none yet, and do not count before it has.\n",
                        summary.waiting);
  }
  return text + rounds_text(summary);
}

record::Json to_json(const Summary& summary) {
  record::Json groups = record::Json::array();
  for (const Group& group : summary.groups) {
    record::Json counts, reasons, rates;
    for (const auto& [outcome, count] : group.counts) counts[record::outcome_class_name(outcome)] = count;
    for (const auto& [reason, count] : group.reasons) reasons[record::reason_name(reason)] = count;
    for (const auto& [outcome, rate] : group.rates) {
      rates[record::outcome_class_name(outcome)] = {{"estimate", record::number_to_json(rate.estimate)},
                                                    {"wilson", interval_json(rate.fixed)},
                                                    {"anytime", interval_json(rate.anytime)}};
    }
    groups.push_back({{"key", group.key},
                      {"trials", group.trials},
                      {"waiting", group.waiting},
                      {"bits", group.bits},
                      {"counts", counts},
                      {"reasons", reasons},
                      {"rates", rates}});
  }
  record::Json value = {{"schema", "bitrift/summary/1"},
                        {"campaign", summary.campaign},
                        {"seed", summary.seed},
                        {"confidence", record::number_to_json(summary.confidence)},
                        {"judge", summary.judge},
                        {"by", summary.by},
                        {"trials", summary.trials},
                        {"planned", summary.planned},
                        {"waiting", summary.waiting},
                        {"canaries", summary.canaries},
                        {"groups", groups}};
  if (summary.sampling && !summary.rounds.empty())
    value["sampling"] = record::sampling_state(summary.sampling.value(), summary.rounds.back());
  return value;
}

}  // namespace bitrift::analyze
