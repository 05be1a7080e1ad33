#include "campaign/folder/resume_audit.h"

#include <algorithm>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "campaign/plan/ends.h"
#include "core/error.h"
#include "core/file.h"
#include "core/process/subprocess.h"

namespace bitrift::campaign {
namespace {

using record::Json;

constexpr const char* schema = "bitrift/campaign-audit/1";

Json audit_of(const design::Arm& arm, const Launch& launch, const std::filesystem::path& log) {
  const TemporaryFolder folder("bitrift-audit");
  const auto answer = folder.path() / "answer.json";
  Subprocess child(audit_command(launch, arm, answer, log));
  std::optional<ExitStatus> status;
  while (!status) {
    status = child.wait(0.1);
    InterruptGuard::check();
  }
  std::error_code none;
  Json found =
      std::filesystem::exists(answer, none) ? Json::parse(read_text(answer), nullptr, false) : Json();
  if (!found.is_object() || !found.contains("equal")) {
    fail(ErrorCode::bad_input, "arm '{}': the script cannot be audited ({}): {}", arm.name, status->text(),
         log_tail(log));
  }
  return found;
}

std::string line_of(const std::vector<std::string>& arms, const Json& found) {
  const std::string start = fmt::format("audit of {}: ", fmt::join(arms, ", "));
  if (const auto problem = found.value("problem", std::string()); !problem.empty())
    return start + "no answer: " + problem;
  if (found.value("equal", false)) return start + "a resume equals an uninterrupted training bit for bit";
  std::vector<std::string> missing;
  for (const Json& one : found.value("missing", Json::array()))
    missing.push_back(one.value("piece", std::string()));
  return start + "a resume is not an uninterrupted training" +
         (missing.empty() ? std::string() : fmt::format("; missing: {}", fmt::join(missing, ", ")));
}

}  // namespace

Json audit_resumes(const design::CampaignSpec& spec, const Launch& launch, const std::filesystem::path& log,
                   const std::function<void(const std::string&)>& say) {
  std::map<std::pair<std::vector<std::string>, int>, Json> known;
  Json arms = Json::object();
  for (const design::Arm& arm : spec.arms) {
    Json& found = known[{arm.words, arm.parallel.ranks}];
    if (found.is_null()) {
      say(fmt::format("auditing the resume of arm '{}'", arm.name));
      found = audit_of(arm, launch, log);
    }
    arms[arm.name] = found;
  }
  return {{"schema", schema}, {"arms", arms}};
}

std::vector<std::string> audit_lines(const Json& audit) {
  if (!audit.is_object() || audit.value("schema", std::string()) != schema || !audit.contains("arms"))
    fail(ErrorCode::bad_file, "audit.json: is not a valid audit of a campaign: remove it, or keep a copy");
  std::vector<std::pair<Json, std::vector<std::string>>> groups;
  for (const auto& [arm, found] : audit.at("arms").items()) {
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&, &own = found](const auto& one) { return one.first == own; });
    if (same == groups.end()) {
      groups.push_back({found, {arm}});
    } else {
      same->second.push_back(arm);
    }
  }
  std::vector<std::string> lines;
  lines.reserve(groups.size());
  for (const auto& [found, names] : groups) lines.push_back(line_of(names, found));
  return lines;
}

}  // namespace bitrift::campaign
