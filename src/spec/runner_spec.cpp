#include "spec/runner_spec.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/error.h"
#include "spec/exec_runner.h"

namespace bitrift::record {
namespace {

std::filesystem::path folder_of(const Document& document) {
  return std::filesystem::absolute(document.source).parent_path();
}

// A Python name, restricted to ASCII letters.
bool is_name(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto fits = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); };
  return !text.empty() && is_letter(text.front()) && std::all_of(text.begin(), text.end(), fits);
}

// "train.py:main": a file next to the spec and, if a name follows, a function of it.
void read_script(const Document& document, RunnerSpec& runner) {
  const auto text = document.value.at("runner").at("python").get<std::string>();
  const auto colon = text.rfind(':');
  const bool named =
      colon != std::string::npos && colon > 0 && is_name(std::string_view(text).substr(colon + 1));
  runner.script = (folder_of(document) / (named ? text.substr(0, colon) : text)).lexically_normal();
  if (named) runner.function = text.substr(colon + 1);
  runner.interpreter = document.value["runner"].value("interpreter", "");
  // A name without a folder is looked up on PATH.
  if (runner.interpreter.find('/') != std::string::npos)
    runner.interpreter = (folder_of(document) / runner.interpreter).lexically_normal();
}

// Keys that only bitrift-train uses.
void refuse_other_keys(const Document& document, const std::string& name) {
  const Json& value = document.value;
  const auto has = [&](const std::string& pointer) { return value.contains(Json::json_pointer(pointer)); };
  for (std::size_t i = 0; i < value.at("arms").size(); ++i) {
    for (const char* key : {"/scope", "/guards", "/precision"}) {
      const std::string pointer = "/arms/" + std::to_string(i) + key;
      if (!has(pointer)) continue;
      fail(ErrorCode::bad_input,
           "{}: is only for bitrift-train; a program of {} loads one file and has its own guards",
           document.where(pointer), name);
    }
  }
  const std::string starts = "starts the ranks of bitrift-train; with " + name;
  if (has("/worker/launch")) {
    fail(ErrorCode::bad_input, "{}: worker.launch: {} they start beside the driver",
         document.place("/worker/launch"), starts);
  }
  if (has("/worker/connect") && value["worker"]["connect"] == "network") {
    fail(ErrorCode::bad_input, "{}: worker.connect: network: {} they run beside the driver",
         document.place("/worker/connect"), starts);
  }
  if (has("/propagation")) {
    fail(ErrorCode::bad_input,
         "{}: propagation: compares states within bitrift-train; a program of {} keeps its own",
         document.place("/propagation"), name);
  }
}

}  // namespace

RunnerSpec runner_from(const Document& document) {
  RunnerSpec runner;
  if (!document.value.contains("runner")) {
    const Json& worker = document.value.value("worker", Json::object());
    if (worker.value("connect", "local") == "network" && worker.contains("memory")) {
      fail(ErrorCode::bad_input,
           "{}: worker.connect: network: the memory of ranks on other machines cannot be watched: leave out "
           "worker.memory",
           document.place("/worker/connect"));
    }
    return runner;
  }
  const Json& value = document.value["runner"];
  if (value.contains("exec") == value.contains("python")) {
    fail(ErrorCode::bad_input, "{}: expected exactly one of 'exec' and 'python'", document.where("/runner"));
  }
  runner.kind = value.contains("exec") ? RunnerKind::exec : RunnerKind::python;
  refuse_other_keys(document, fmt::format("runner.{}", name_of(runner.kind)));
  if (runner.kind == RunnerKind::python) {
    read_script(document, runner);
    return runner;
  }
  if (value.contains("interpreter")) {
    fail(ErrorCode::bad_input,
         "{}: is for runner.python; write the program as the first word of "
         "runner.exec.command",
         document.where("/runner/interpreter"));
  }
  runner.command = exec_words_from(document, "/runner/exec/command");
  return runner;
}

std::vector<std::string> runner_words_of(const Document& document, std::size_t arm) {
  const std::string pointer = "/arms/" + std::to_string(arm) + "/exec";
  if (!document.value.contains(Json::json_pointer(pointer))) return {};
  if (!document.value.contains("runner")) {
    fail(ErrorCode::bad_input,
         "{}: is for a command or a script, but there is neither runner.exec nor runner.python",
         document.where(pointer));
  }
  if (document.value["runner"].contains("exec")) return exec_words_from(document, pointer);
  return document.value.at(Json::json_pointer(pointer)).get<std::vector<std::string>>();
}

void check_script_exists(const Document& document, const RunnerSpec& runner) {
  if (runner.kind != RunnerKind::python || std::filesystem::is_regular_file(runner.script)) return;
  fail(ErrorCode::not_found, "{}: no file {}; the path is relative to the spec's folder",
       document.where("/runner/python"), runner.script.string());
}

Json to_json(const RunnerSpec& runner) {
  if (runner.kind == RunnerKind::exec) return {{"exec", {{"command", runner.command}}}};
  Json value = {{"python", runner.script.string() + (runner.function.empty() ? "" : ":" + runner.function)}};
  if (!runner.interpreter.empty()) value["interpreter"] = runner.interpreter;
  return value;
}

}  // namespace bitrift::record
