// One question to a script, before its runs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/process/subprocess.h"
#include "record/json/json.h"

namespace bitrift::campaign {

/// The answer that a process of the script wrote to a file.
struct ScriptAnswer {
  std::optional<record::Json> value;  ///< at the key that was asked for
  std::string failed = {};            ///< without a value: the exception that ended the script
  std::string ended = {};             ///< without either: how the process ended
};

/// Runs the command, which writes {key: value} or {"failed": "..."} to the file `answer`, and may take an
/// hour. Throws as InterruptGuard::check() when a signal interrupts this process.
[[nodiscard]] ScriptAnswer ask_script(const Command& command, const std::filesystem::path& answer,
                                      const char* key);

}  // namespace bitrift::campaign
