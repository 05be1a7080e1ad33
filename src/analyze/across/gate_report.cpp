#include "analyze/across/gate_report.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/ranges.h>

#include "analyze/rates/comparison_verdict.h"

namespace bitrift::analyze {
namespace {

using record::Json;

constexpr std::size_t kFlipsShown = 20;
using GateRow = std::array<std::string, 7>;

std::string points(double share) { return fmt::format("{:+.2f}", 100 * share); }

GateRow head() { return {"line", "baseline", "now", "change in points", "p", "would see", "result"}; }

GateRow row_of(const GateLine& line) {
  const RateDifference& rates = line.difference.shown();
  return {line.name(),
          fmt::format("{:.2f} % of {}", 100 * rates.first_rate(), rates.first_trials()),
          fmt::format("{:.2f} % of {}", 100 * rates.second_rate(), rates.second_trials()),
          fmt::format("{} [{}, {}]", points(rates.difference()), points(line.interval.low),
                      points(line.interval.high)),
          p_text(line.adjusted_p),
          points(line.visible),
          name_of(line.verdict)};
}

std::string aligned(const std::vector<GateRow>& rows) {
  std::array<std::size_t, std::tuple_size_v<GateRow>> width{};
  for (const GateRow& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  }
  std::string out;
  for (const GateRow& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += fmt::format("{}{:<{}}", i == 0 ? "" : "  ", row[i], width[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::vector<std::string> names_with(const GateReport& report, GateVerdict verdict) {
  std::vector<std::string> names;
  for (const GateLine& line : report.lines) {
    if (line.verdict == verdict) names.push_back(line.name());
  }
  return names;
}

std::string seen_text(const GateReport& report) {
  double least = 1;
  double most = 0;
  for (const GateLine& line : report.lines) {
    least = std::min(least, line.visible);
    most = std::max(most, line.visible);
  }
  if (least == most) return fmt::format("{:.2f} points", 100 * most);
  return fmt::format("{:.2f} to {:.2f} points, depending on the line,", 100 * least, 100 * most);
}

std::string sentence(const GateReport& report) {
  const auto worse = names_with(report, GateVerdict::worse);
  const auto undecided = names_with(report, GateVerdict::undecided);
  switch (report.verdict()) {
    case GateVerdict::worse:
      return fmt::format("Worse: harm has increased in {} of {} lines ({}).", worse.size(),
                         report.lines.size(), fmt::join(worse, "; "));
    case GateVerdict::undecided:
      return fmt::format(
          "Undecided: no increase is shown, but one of must_see_points could have passed unseen in {} of {} "
          "lines ({}); run more trials.",
          undecided.size(), report.lines.size(), fmt::join(undecided, "; "));
    case GateVerdict::passed:
      break;
  }
  return fmt::format("Passed: no increase of harm is shown. An observed increase of {} would have failed.",
                     seen_text(report));
}

std::string guarantee(const GateReport& report) {
  return fmt::format(
      "If harm has increased in no stratum, or by no more than the tolerance, this gate fails with a "
      "probability of at most {:g} %. This includes the luck of clean runs.",
      100 * report.alpha);
}

std::uint64_t worse_flips(const GateReport& report) {
  return static_cast<std::uint64_t>(
      std::count_if(report.flips.begin(), report.flips.end(), [](const Flip& flip) { return flip.worse(); }));
}

std::string flips_text(const GateReport& report) {
  if (report.pairs == 0) return "No fault is the same as in the baseline, so the comparison is unpaired.";
  const std::uint64_t worse = worse_flips(report);
  return fmt::format("{} trials have the same fault as in the baseline: {} end worse, {} end better.",
                     report.pairs, worse, report.flips.size() - worse);
}

std::string shift_text(const std::string& arm, const Shift& shift) {
  return fmt::format(
      "all runs of arm {} end {}: {}. This is a change of the training and not of what faults do to it", arm,
      shift.worse() ? "worse" : "better", shift.text("in the baseline"));
}

// An allowance below a hundredth of the limit changes nothing that a reader would notice.
bool matters(const OneLimit& limit) {
  for (std::size_t j = 0; j < limit.metrics.size(); ++j) {
    if (limit.allowance[j] > 0.01 * limit.limit[j]) return true;
  }
  return false;
}

std::vector<std::string> notes(const GateReport& report) {
  std::vector<std::string> out;
  for (const std::string& difference : report.differences)
    out.push_back("differs from the baseline: " + difference);
  for (const std::string& arm : report.new_arms)
    out.push_back("arm " + arm + " is not in the baseline, so it is not tested");
  for (const GateArm& arm : report.arms) {
    for (const Shift& shift : arm.shifts) out.push_back(shift_text(arm.arm, shift));
  }
  return out;
}

// The limits by which the SDCs of both campaigns were counted, an entry for each arm.
std::vector<std::string> limit_sentences(const GateReport& report) {
  std::vector<std::string> out;
  const bool judged = std::any_of(report.lines.begin(), report.lines.end(), [](const GateLine& line) {
    return line.outcome != record::OutcomeClass::crash;
  });
  if (!judged) return out;
  for (const GateArm& arm : report.arms) {
    std::string text = fmt::format("SDC in arm {}: {} against harmless runs of the same data order", arm.arm,
                                   limit_text(arm.limit));
    if (matters(arm.limit)) {
      text += fmt::format(
          ". Harmless runs end apart from each other, so the test counts SDCs of this campaign only from {} "
          "on",
          limit_text(arm.limit, arm.limit.allowance));
    }
    out.push_back(text + ".");
  }
  return out;
}

std::string flip_text(const Flip& flip) {
  return fmt::format("{}: {}, in the baseline {}{}{}", flip.id.text(), name_of(flip.after),
                     name_of(flip.before), flip.fault.empty() ? "" : "; ", flip.fault);
}

// A text in the form that a Markdown table or list takes.
std::string in_markdown(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '&') {
      out += c == '<' ? "&lt;" : "&amp;";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += ' ';
    } else {
      if (std::string_view("\\`*_[]|#").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string markdown_row(const GateRow& row) {
  std::string out = "|";
  for (const std::string& cell : row) out += " " + in_markdown(cell) + " |";
  return out + "\n";
}

std::string in_xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:  // XML 1.0 allows only these characters below 0x20
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return out;
}

std::string explanation(const GateLine& line) {
  const RateDifference& rates = line.difference.shown();
  std::string out = fmt::format(
      "{}: {:.2f} % in the baseline, {:.2f} % now; change {} points, interval [{}, {}]; p {} after Holm, "
      "test {}; "
      "tolerance {:g} points; an observed increase of {:.2f} points would have failed",
      line.name(), 100 * rates.first_rate(), 100 * rates.second_rate(), points(rates.difference()),
      points(line.interval.low), points(line.interval.high), p_text(line.adjusted_p), name_of(line.test),
      100 * line.tolerance, 100 * line.visible);
  if (line.must_see) out += fmt::format("; must see {:g} points", 100 * *line.must_see);
  return out;
}

std::string test_case(const GateReport& report, const GateLine& line) {
  std::string out = fmt::format(R"(    <testcase classname="bitrift.gate.{}" name="{}" time="0">)",
                                in_xml(report.campaign), in_xml(line.name())) +
                    "\n";
  const std::string text = in_xml(explanation(line));
  if (line.verdict != GateVerdict::passed) {
    out +=
        fmt::format(R"(      <failure type="{}" message="{}">{}</failure>)", name_of(line.verdict),
                    line.verdict == GateVerdict::worse ? "the rate has increased beyond its tolerance"
                                                       : "an increase of must_see_points could pass unseen",
                    text) +
        "\n";
  } else {
    out += "      <system-out>" + text + "</system-out>\n";
  }
  return out + "    </testcase>\n";
}

Json values_json(const std::vector<record::Metric>& metrics, const MetricValues& values) {
  Json by_metric = Json::object();
  for (std::size_t j = 0; j < metrics.size(); ++j)
    by_metric[metrics[j].name()] = record::number_to_json(values[j]);
  return by_metric;
}

Json arm_json(const GateArm& arm) {
  Json shifts = Json::array();
  for (const Shift& shift : arm.shifts) {
    shifts.push_back({{"metric", shift.metric},
                      {"first", record::number_to_json(shift.first)},
                      {"second", record::number_to_json(shift.second)}});
  }
  return {{"arm", arm.arm},
          {"limit", values_json(arm.limit.metrics, arm.limit.limit)},
          {"allowance", values_json(arm.limit.metrics, arm.limit.allowance)},
          {"miss", arm.limit.miss},
          {"shifts", std::move(shifts)}};
}

Json line_json(const GateLine& line) {
  const RateDifference& rates = line.difference.shown();
  Json value = to_json(rates);
  value.update({{"name", line.name()},
                {"key", line.key},
                {"outcome", line.outcome},
                {"interval", {line.interval.low, line.interval.high}},
                {"test", name_of(line.test)},
                {"p", line.p},
                {"adjusted_p", line.adjusted_p},
                {"tolerance_points", 100 * line.tolerance},
                {"visible_points", 100 * line.visible},
                {"verdict", name_of(line.verdict)}});
  if (line.must_see) value["must_see_points"] = 100 * *line.must_see;
  return value;
}

}  // namespace

std::string text(const GateReport& report) {
  std::vector<GateRow> rows = {head()};
  for (const GateLine& line : report.lines) rows.push_back(row_of(line));
  std::string out = aligned(rows) + "\n";
  for (const std::string& limit : limit_sentences(report)) out += limit + "\n";
  for (const std::string& note : notes(report)) out += note + "\n";
  out += flips_text(report) + "\n";
  for (std::size_t i = 0; i < std::min<std::size_t>(kFlipsShown, worse_flips(report)); ++i)
    out += "  " + flip_text(report.flips[i]) + "\n";
  return out + guarantee(report) + "\n" + sentence(report) + "\n";
}

std::string markdown(const GateReport& report, const std::string& folder) {
  std::string out = fmt::format("### Resilience gate: {}\n\n{}\n\n", in_markdown(report.campaign),
                                in_markdown(sentence(report)));
  out += markdown_row(head()) + "|---|---|---|---|---|---|---|\n";
  for (const GateLine& line : report.lines) out += markdown_row(row_of(line));
  out += "\n<details>\n<summary>Details</summary>\n\n";
  out += in_markdown(guarantee(report)) + " " + in_markdown(flips_text(report)) + "\n\n";
  for (const std::string& limit : limit_sentences(report)) out += "- " + in_markdown(limit) + "\n";
  for (const std::string& note : notes(report)) out += "- " + in_markdown(note) + "\n";
  for (std::size_t i = 0; i < std::min(kFlipsShown, report.flips.size()); ++i)
    out += "- " + in_markdown(flip_text(report.flips[i])) + "\n";
  if (report.flips.size() > kFlipsShown)
    out += fmt::format("- and {} more\n", report.flips.size() - kFlipsShown);
  if (!report.flips.empty()) {
    out += fmt::format("\nReplay one of them with\n\n```\nbitrift campaign replay {} {}\n```\n", folder,
                       report.flips.front().id.text());
  }
  return out + "\n</details>\n";
}

std::string junit(const GateReport& report, const std::string& time) {
  const auto failures = std::count_if(report.lines.begin(), report.lines.end(), [](const GateLine& line) {
    return line.verdict != GateVerdict::passed;
  });
  const std::string counts =
      fmt::format(R"(tests="{}" failures="{}" errors="0")", report.lines.size(), failures);
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out += fmt::format("<testsuites name=\"bitrift gate\" {} time=\"0\">\n", counts);
  out += fmt::format("  <testsuite name=\"{}\" {} skipped=\"0\" time=\"0\" timestamp=\"{}\">\n",
                     in_xml(report.campaign), counts, in_xml(time.substr(0, 19)));
  for (const GateLine& line : report.lines) out += test_case(report, line);
  std::string rest = sentence(report) + "\n" + guarantee(report) + "\n" + flips_text(report) + "\n";
  for (const std::string& limit : limit_sentences(report)) rest += limit + "\n";
  for (const std::string& note : notes(report)) rest += note + "\n";
  for (std::size_t i = 0; i < std::min(kFlipsShown, report.flips.size()); ++i)
    rest += flip_text(report.flips[i]) + "\n";
  out += "    <system-out>" + in_xml(rest) + "</system-out>\n";
  return out + "  </testsuite>\n</testsuites>\n";
}

Json to_json(const GateReport& report) {
  Json lines = Json::array();
  for (const GateLine& line : report.lines) lines.push_back(line_json(line));
  Json arms = Json::array();
  for (const GateArm& arm : report.arms) arms.push_back(arm_json(arm));
  Json flips = Json::array();
  for (const Flip& flip : report.flips) {
    flips.push_back(
        {{"id", flip.id.text()}, {"before", flip.before}, {"after", flip.after}, {"fault", flip.fault}});
  }
  return {{"schema", "bitrift/gate/1"},  {"campaign", report.campaign},
          {"alpha", report.alpha},       {"verdict", name_of(report.verdict())},
          {"answer", sentence(report)},  {"differences", report.differences},
          {"new_arms", report.new_arms}, {"same_faults", report.pairs},
          {"arms", std::move(arms)},     {"lines", std::move(lines)},
          {"flips", std::move(flips)}};
}

}  // namespace bitrift::analyze
