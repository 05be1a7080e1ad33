#include "analyze/across/meaning.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "record/json/json_diff.h"

namespace bitrift::analyze {
namespace {

using record::Json;

// The parts of a spec, by what they decide.
constexpr const char* kMeaning[] = {"strata", "analysis", "resume"};
constexpr const char* kOthers[] = {"seed",     "base",       "arms",   "controls",
                                   "sampling", "exhaustive", "runner", "trials_per_stratum"};

// The spec's value, or null, without the keys that change no rate.
Json part_of(const Json& spec, const std::string& key) {
  Json part = spec.value(key, Json());
  if (key == "analysis") part.erase("confidence");
  return part;
}

std::string difference_text(const std::string& key, const Json& first, const Json& second) {
  const auto difference = campaign::json_difference(first, second);
  if (!difference) return "";
  const bool member = !difference->key.empty() && difference->key.front() != '[';
  const std::string whole = key + (member ? "." : "") + difference->key;
  return fmt::format("{}: {} and {}", whole, difference->first, difference->second);
}

const std::string& digest_of(const Sample& sample, const design::Arm& arm) {
  static const std::string unknown;
  const auto found = sample.base_digests.find(sample.spec.files.at(arm.file).stem);
  return found == sample.base_digests.end() ? unknown : found->second;
}

// The first arm, among those with one name, whose base has other bytes.
std::string base_text(const Sample& first, const Sample& second) {
  for (const design::Arm& arm : first.spec.arms) {
    const auto other = std::find_if(second.spec.arms.begin(), second.spec.arms.end(),
                                    [&](const design::Arm& one) { return one.name == arm.name; });
    if (other == second.spec.arms.end() || digest_of(first, arm) == digest_of(second, *other)) continue;
    return fmt::format("base checkpoint of arm {}: other bytes", arm.name);
  }
  return "";
}

std::string sizes_text(const Sample& first, const Sample& second) {
  for (std::size_t at = 0; at < std::min(first.order.bits.size(), second.order.bits.size()); ++at) {
    if (first.order.bits[at] == second.order.bits[at]) continue;
    return fmt::format("bits of stratum {}: {} and {}", first.order.names[at], first.order.bits[at],
                       second.order.bits[at]);
  }
  return "";
}

// The first arm, among those with one name, that is judged by other metrics. A gate or comparison uses those
// of the first.
std::string metrics_text(const Sample& first, const Sample& second) {
  for (const auto& [arm, reference] : first.references) {
    const auto other = second.references.find(arm);
    if (other == second.references.end() || other->second.metrics == reference.metrics) continue;
    const auto names = [](const ArmReference& one) {
      std::vector<std::string> words;
      for (const record::Metric& metric : one.metrics) words.push_back(metric.name());
      return fmt::format("{}", fmt::join(words, " and "));
    };
    return fmt::format("judged metrics of arm {}: {}, and {}", arm, names(reference), names(other->second));
  }
  return "";
}

std::string horizon_text(const Sample& first, const Sample& second) {
  if (first.horizon_step == second.horizon_step) return "";
  return fmt::format("steps from the resume to the evaluation that is judged: {} and {}", first.horizon_step,
                     second.horizon_step);
}

}  // namespace

std::vector<std::string> differences(const Sample& first, const Sample& second) {
  const Json one = design::to_json(first.spec);
  const Json other = design::to_json(second.spec);
  std::vector<std::string> texts;
  for (const char* key : kOthers)
    texts.push_back(difference_text(key, part_of(one, key), part_of(other, key)));
  texts.push_back(base_text(first, second));
  texts.push_back(sizes_text(first, second));
  texts.push_back(horizon_text(first, second));
  texts.push_back(metrics_text(first, second));
  std::erase(texts, "");
  return texts;
}

void refuse_other_meaning(const Sample& first, const Sample& second, const std::string& hint) {
  const Json one = design::to_json(first.spec);
  const Json other = design::to_json(second.spec);
  for (const char* key : kMeaning) {
    const std::string text = difference_text(key, part_of(one, key), part_of(other, key));
    if (text.empty()) continue;
    fail(ErrorCode::bad_input, "the rates of the two campaigns mean different things ({}); {}", text, hint);
  }
  if (first.order.names != second.order.names)
    fail(ErrorCode::bad_input, "the two campaigns have their strata in another order; {}", hint);
}

}  // namespace bitrift::analyze
