#include "spec/exec_runner.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "record/json/schema.h"

namespace bitrift::record {
namespace {

// The names in `text` that are written as {name}, of small letters and '_'. Compiling a std::regex would take
// seconds.
std::vector<std::string> placeholders_in(const std::string& text) {
  std::vector<std::string> names;
  for (auto open = text.find('{'); open != std::string::npos; open = text.find('{', open + 1)) {
    const auto end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", open + 1);
    if (end == std::string::npos || end == open + 1 || text[end] != '}') continue;
    names.push_back(text.substr(open + 1, end - open - 1));
  }
  return names;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

bool is_known(const std::string& name) {
  return std::find(std::begin(exec_placeholders), std::end(exec_placeholders), name) !=
         std::end(exec_placeholders);
}

// The spellings of Python's str(float) and of the journal; the schema lets no other text through.
double number_of(const Json& value) {
  if (!value.is_string()) return value.get<double>();
  const auto text = value.get<std::string>();
  if (text == "nan" || text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  return text.front() == '-' ? -std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::infinity();
}

std::optional<double> optional_number(const Json& value, const char* key) {
  return value.contains(key) ? std::optional(number_of(value[key])) : std::nullopt;
}

Evaluation evaluation_of(const Json& value) {
  Evaluation evaluation;
  value.at("epoch").get_to(evaluation.epoch);
  value.at("step").get_to(evaluation.step);
  evaluation.train_loss = optional_number(value, "train_loss");
  evaluation.train_accuracy = optional_number(value, "train_accuracy");
  evaluation.test_loss = optional_number(value, "test_loss");
  evaluation.test_accuracy = optional_number(value, "test_accuracy");
  evaluation.test_capped_loss = optional_number(value, "test_capped_loss");
  for (const auto& [key, into] : {std::pair("lower_is_better", &evaluation.lower_is_better),
                                  std::pair("higher_is_better", &evaluation.higher_is_better)}) {
    if (!value.contains(key)) continue;
    for (const auto& [name, number] : value[key].items()) (*into)[name] = number_of(number);
  }
  return evaluation;
}

// refuse: takes a key and a text, and throws.
template <typename Refuse>
void check_evaluation(const Evaluation& evaluation, std::size_t replica, const Refuse& refuse) {
  const auto& [lower, higher] = std::tie(evaluation.lower_is_better, evaluation.higher_is_better);
  const std::string key = fmt::format("replicas/{}", replica);
  if (!evaluation.test_loss && lower.empty() && higher.empty())
    refuse(key, "an evaluation has neither test_loss nor a metric in lower_is_better or higher_is_better");
  for (const auto& [name, value] : lower) {
    if (higher.contains(name))
      refuse(key, fmt::format("'{}' is in lower_is_better and in higher_is_better", name));
  }
}

// Checks what a schema of draft 7 could say only with alternatives, whose messages name no key.
void check_result(const Document& document, const RunResult& result) {
  const auto refuse = [&](const std::string& key, const std::string& text) {
    fail(ErrorCode::bad_file, "{}: {}: {}", document.place("/" + key), key, text);
  };
  const RunStatus status = result.status;
  if (status == RunStatus::rejected) return;
  if (!document.value.contains("steps")) refuse("steps", "is missing; a run that was not rejected has them");
  if (result.replicas.empty() && status == RunStatus::done)
    refuse("replicas", "is missing or empty in a run that is done");
  for (std::size_t r = 0; r < result.replicas.size(); ++r) {
    if (result.replicas[r].size() == result.replicas[0].size()) continue;
    refuse("replicas", fmt::format("replica {} has {} evaluations, replica 0 has {}", r,
                                   result.replicas[r].size(), result.replicas[0].size()));
  }
  if (status == RunStatus::done && result.replicas[0].empty())
    refuse("replicas", "a run that is done was evaluated");
  if (status == RunStatus::done && result.final_digest.empty())
    refuse("final_digest", "is missing; it says whether two runs ended in the same state");
  for (std::size_t r = 0; r < result.replicas.size(); ++r) {
    for (const Evaluation& evaluation : result.replicas[r]) check_evaluation(evaluation, r, refuse);
  }
  if (!result.replica_digests.empty() && result.replica_digests.size() != result.replicas.size()) {
    refuse("replica_digests", fmt::format("expected one for each of {} replicas, found {}",
                                          result.replicas.size(), result.replica_digests.size()));
  }
}

RunResult result_of(const Json& value) {
  RunResult result;
  value.at("status").get_to(result.status);
  result.detail = value.value("detail", "");
  const Json none = Json::array();
  for (const Json& replica : value.contains("replicas") ? value["replicas"] : none) {
    auto& evaluations = result.replicas.emplace_back();
    for (const Json& evaluation : replica) evaluations.push_back(evaluation_of(evaluation));
  }
  result.steps = value.value("steps", std::int64_t{0});
  if (value.contains("test_targets")) result.test_targets = value["test_targets"].get<std::int64_t>();
  if (value.contains("nonfinite_step")) result.nonfinite_step = value["nonfinite_step"].get<std::int64_t>();
  result.nonfinite_state = value.value("nonfinite_state", false);
  result.final_digest = value.value("final_digest", "");
  result.replica_digests = value.value("replica_digests", std::vector<std::string>{});
  if (value.contains("last_loss")) result.last_loss = hex_float(number_of(value["last_loss"]));
  return result;
}

}  // namespace

std::vector<std::string> exec_words_from(const Document& document, const std::string& pointer) {
  const std::string folder =
      std::filesystem::absolute(document.source).parent_path().lexically_normal().string();
  std::vector<std::string> words;
  for (const Json& word : document.value.at(Json::json_pointer(pointer))) {
    const std::string text = replaced(word.get<std::string>(), "{folder}", folder);
    for (const std::string& name : placeholders_in(text)) {
      if (is_known(name)) continue;
      const std::string here = pointer + "/" + std::to_string(words.size());
      fail(ErrorCode::bad_input, "{}: '{{{}}}' is not a placeholder; there are {{folder}} and {{{}}}",
           document.where(here), name, fmt::join(exec_placeholders, "}, {"));
    }
    words.push_back(text);
  }
  return words;
}

std::vector<std::string> expand_exec_words(const std::vector<std::string>& words,
                                           const std::map<std::string, std::string>& values) {
  std::vector<std::string> expanded;
  for (const std::string& word : words) {
    std::string text = word;
    bool dropped = false;
    for (const auto& [name, value] : values) {
      const std::string mark = "{" + name + "}";
      if (text.find(mark) == std::string::npos) continue;
      dropped = dropped || value.empty();
      if (value.empty() && text == mark && !expanded.empty() && expanded.back().starts_with("-")) {
        expanded.pop_back();
      }
      text = replaced(text, mark, value);
    }
    if (!dropped) expanded.push_back(text);
  }
  return expanded;
}

RunResult read_exec_result(const std::filesystem::path& path) {
  try {
    const Document document = parse_file(path);
    check_schema(document, shipped_schema("run-result"));
    RunResult result = result_of(document.value);
    check_result(document, result);
    if (result.replica_digests.empty()) {
      result.replica_digests.assign(result.replicas.size(), result.final_digest);
    }
    return result;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) throw;
    throw Error(ErrorCode::bad_file, error.what());
  }
}

}  // namespace bitrift::record
