// A third-party training program: the command in a campaign's spec, and what it writes (docs/exec-runner.md).
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "record/json/json.h"
#include "record/run.h"

namespace bitrift::record {

/// The values that a command may get, as {name} in a word and as the variable BITRIFT_NAME.
inline constexpr const char* exec_placeholders[] = {"checkpoint", "result", "epochs",
                                                    "ranks",      "arm",    "order_seed"};

/// The words at a JSON pointer of a spec, {folder} replaced by the folder of the spec. Throws
/// Error(bad_input) that names file, line and key for a {name} that is not among the placeholders.
[[nodiscard]] std::vector<std::string> exec_words_from(const Document& document, const std::string& pointer);

/// The words with every {name} replaced by its value. A word that is only a {name} without a value is
/// dropped, and the word before it too when that is an option ("--order-seed {order_seed}"); a longer word
/// with such a {name} ("--order-seed={order_seed}") is dropped.
[[nodiscard]] std::vector<std::string> expand_exec_words(const std::vector<std::string>& words,
                                                         const std::map<std::string, std::string>& values);

/// Reads the result file of a command (campaigns/schema/run-result.schema.json). The caller sets id,
/// changed_tensors and seconds. Throws Error(not_found | bad_file) with file, line, key, what was expected
/// and what was found.
[[nodiscard]] RunResult read_exec_result(const std::filesystem::path& path);

}  // namespace bitrift::record
