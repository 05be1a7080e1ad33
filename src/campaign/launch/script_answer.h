// What a script says of itself before its runs.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/process/subprocess.h"
#include "record/json/json.h"

namespace bitrift::campaign {

/// What a process of the script wrote to its answer.
struct ScriptAnswer {
  std::optional<record::Json> value;  ///< at the key that was asked for
  std::string failed = {};            ///< without a value: the exception that ended the script
  std::string ended = {};             ///< without either: how the process ended
};

/// Runs the command, which writes {key: value} or {"failed": "..."} to `answer`; all loads of one arm may
/// take an hour. Ends with the signal that interrupts this process, as InterruptGuard does.
[[nodiscard]] ScriptAnswer ask_script(const Command& command, const std::filesystem::path& answer,
                                      const char* key);

}  // namespace bitrift::campaign
