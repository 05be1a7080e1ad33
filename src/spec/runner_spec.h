// The program that resumes the altered checkpoints: bitrift-train, a command or a Python script
// (docs/spec.md, "runner").
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "core/named_enum.h"
#include "record/json/json.h"

namespace bitrift::record {

enum class RunnerKind {
  train,   ///< bitrift-train
  exec,    ///< a command for each run (docs/exec-runner.md)
  python,  ///< a script that makes run after run (docs/own-trainer.md)
};
constexpr EnumNames<3> names_of(RunnerKind) { return {"runner", {"train", "exec", "python"}}; }

struct RunnerSpec {
  RunnerKind kind = RunnerKind::train;
  std::vector<std::string> command = {};  ///< exec: words with placeholders (spec/exec_runner.h)
  std::filesystem::path script = {};      ///< python: absolute
  std::string function = {};              ///< python: a function of the script; "": the script itself is run
  std::string interpreter = {};           ///< python: program; "": a suitable one is looked for
};

/// Reads /runner of a document that obeys the schema. Throws Error(bad_input) with file, line and key for
/// keys of the spec that make no sense with that runner, and as exec_words_from() does.
[[nodiscard]] RunnerSpec runner_from(const Document& document);
/// What an arm (by its place in the spec) adds to the command or the script. Throws Error(bad_input).
[[nodiscard]] std::vector<std::string> runner_words_of(const Document& document, std::size_t arm);
/// For a spec as the user wrote it; a resumed campaign may have moved. Throws Error(not_found).
void check_script_exists(const Document& document, const RunnerSpec& runner);
[[nodiscard]] Json to_json(const RunnerSpec& runner);

}  // namespace bitrift::record
