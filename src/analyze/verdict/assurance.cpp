#include "analyze/verdict/assurance.h"

#include <algorithm>
#include <vector>

#include <fmt/ranges.h>

#include "core/error.h"

namespace bitrift::analyze {
namespace {

using record::Json;
using record::Metric;

std::string resolution_text(const Metric& metric, const std::optional<double>& harm) {
  const std::string changes = fmt::format("{}s of {}", record::harm_word(metric), metric.name());
  return harm ? fmt::format("{} below {}", changes, record::change_text(metric, *harm)) : "all " + changes;
}

std::string measured_text(const Assurance& arm) {
  const Judged& clean = arm.measured.held_out;
  if (clean.runs == 0) return "no held-out run, so the false-SDC rate was not measured";
  return fmt::format("clean runs called SDC: {} of {}, at most {:.1f} %", clean.called, clean.runs,
                     100 * arm.at_most);
}

std::string jitter_text(const Assurance& arm) {
  const Judged& jitter = arm.measured.jitter;
  if (jitter.runs == 0)
    return "no jitter run, so it is not known whether harmless faults stay near the golden run";
  std::string called = fmt::format("harmless faults called SDC: {} of {}", jitter.called, jitter.runs);
  if (!arm.measured.jitter_distance) return called;
  const double distance = *arm.measured.jitter_distance;
  return fmt::format("{}; they end within {:.2g} units of their golden run{}", called, distance,
                     distance > chaotic
                         ? ": the training is chaotic, so luck decides the outcome of faults near the limit"
                         : "");
}

// Why an arm does not see a fall that others would call a degradation, and what helps.
std::string blind_text(const std::string& name, const Assurance& arm) {
  const auto found = arm.resolution.find(Metric::test_accuracy);
  if (found == arm.resolution.end() || (found->second && *found->second <= coarse)) return "";
  return fmt::format(
      "{} cannot see a fall of {:g} points of test accuracy{}. To sharpen it: more envelope runs\n"
      "(controls.envelope, now {}), a larger test set, a lower final learning rate, or a longer horizon.\n",
      name, 100 * coarse, found->second ? "" : ", or any other", arm.envelope_runs);
}

Json judged_json(const Judged& judged) { return {{"runs", judged.runs}, {"called", judged.called}}; }

}  // namespace

Assurance assurance_of(const ArmControls& controls, const FalseSdc& measured, double confidence) {
  const Calibration& calibration = controls.calibration.value();
  Assurance arm;
  arm.envelope_runs = calibration.runs();
  arm.level = calibration.level();
  arm.level_with = calibration.level_with(confidence);
  arm.measured = measured;
  arm.at_most = upper_bound(measured.held_out, confidence);
  arm.resolution = resolution_of(controls);
  return arm;
}

std::string assurance_text(const std::map<std::string, Assurance>& arms, double confidence) {
  std::string text;
  std::string blind;
  for (const auto& [name, arm] : arms) {
    std::vector<std::string> seen;
    for (const auto& [metric, harm] : arm.resolution) seen.push_back(resolution_text(metric, harm));
    text += fmt::format(
        "{}: {} envelope runs\n"
        "  level: at most {:.2g} % of clean runs are called SDC; {:.2g} % given this calibration ({:g} % "
        "confidence)\n"
        "  {}\n"
        "  {}\n"
        "  blind to {}\n",
        name, arm.envelope_runs, 100 * arm.level, 100 * arm.level_with, 100 * confidence, measured_text(arm),
        jitter_text(arm), fmt::join(seen, " and "));
    blind += blind_text(name, arm);
  }
  return text + blind;
}

Json to_json(const Assurance& arm) {
  Json resolution = Json::object();
  for (const auto& [metric, harm] : arm.resolution)
    resolution[metric.name()] = harm ? record::number_to_json(*harm) : Json();
  return {{"envelope_runs", arm.envelope_runs},
          {"level", record::number_to_json(arm.level)},
          {"level_with_confidence", record::number_to_json(arm.level_with)},
          {"false_sdc",
           {{"held_out", judged_json(arm.measured.held_out)},
            {"jitter", judged_json(arm.measured.jitter)},
            {"jitter_distance",
             arm.measured.jitter_distance ? record::number_to_json(*arm.measured.jitter_distance) : Json()},
            {"at_most", record::number_to_json(arm.at_most)}}},
          {"resolution", resolution}};
}

}  // namespace bitrift::analyze
