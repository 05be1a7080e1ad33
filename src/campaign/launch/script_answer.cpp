#include "campaign/launch/script_answer.h"

#include <chrono>

#include "campaign/plan/ends.h"
#include "core/file.h"

namespace bitrift::campaign {
namespace {

constexpr std::chrono::hours longest{1};

}  // namespace

ScriptAnswer ask_script(const Command& command, const std::filesystem::path& answer, const char* key) {
  Subprocess child(command);
  const auto end = std::chrono::steady_clock::now() + longest;
  std::optional<ExitStatus> status;
  while (!status && std::chrono::steady_clock::now() < end) {
    status = child.wait(0.1);
    InterruptGuard::check();
  }
  record::Json said;
  if (std::filesystem::exists(answer)) said = record::Json::parse(read_text(answer), nullptr, false);
  if (said.is_object() && said.contains(key)) return {said.at(key)};
  if (said.is_object() && said.contains("failed")) return {std::nullopt, said.at("failed")};
  return {std::nullopt, "", status ? status->text() : "its deadline passed"};
}

}  // namespace bitrift::campaign
