#include "campaign/folder/unread.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <unistd.h>

#include "campaign/launch/script_answer.h"
#include "campaign/plan/weights.h"
#include "ckpt/reader.h"
#include "core/error.h"
#include "core/file.h"

namespace bitrift::campaign {
namespace {

using record::Json;

// A copy of the base, in the folder of the base, which has room for it. The next start removes what a killed
// driver left.
struct BesideBase {
  explicit BesideBase(const std::filesystem::path& base)
      : path(base.parent_path() / fmt::format(".{}.tmp-unread-{}{}", base.filename().string(), getpid(),
                                              record::kept_extension(base))) {}
  ~BesideBase() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  BesideBase(const BesideBase&) = delete;
  BesideBase& operator=(const BesideBase&) = delete;
  std::filesystem::path path;
};

// What the script of an arm does not load, and on which of these weights its evaluation does not depend.
struct Answer {
  std::set<std::string> unread, unused;
};

Answer answer_of(const design::Arm& arm, const Launch& launch,
                 const std::vector<std::vector<std::string>>& weights, const std::filesystem::path& log) {
  const TemporaryFolder folder("bitrift-unread");
  const auto answer = folder.path() / "answer.json";
  const auto list = folder.path() / "weights.json";
  replace_text(list, Json(weights).dump());
  const BesideBase copy(launch.base);
  const auto [tensors, failed, ended] =
      ask_script(unread_command(launch, arm, copy.path, list, answer, log), answer, "tensors");
  if (!tensors) {
    fail(ErrorCode::bad_input, "arm '{}': workers cannot be started: {}; {} says: {}", arm.name,
         failed + ended, log.string(), log_tail(log));
  }
  return {tensors->at("unread").get<std::set<std::string>>(),
          tensors->at("unused").get<std::set<std::string>>()};
}

// The tensors of each role that a reader canary could alter.
std::map<std::string, std::set<std::string>> readable_roles(const ckpt::Reader& base) {
  std::map<std::string, std::set<std::string>> roles;
  for (const ckpt::TensorInfo& tensor : base.tensors()) {
    const bool number = tensor.format && tensor.format->kind == NumberKind::floating;
    const bool state = tensor.role != "unknown" && tensor.role != "progress" && tensor.role != "checksum";
    if (number && state && tensor.refusal.empty() && tensor.alias_of.empty())
      roles[tensor.role].insert(tensor.path);
  }
  return roles;
}

}  // namespace

bool asks_about_bases(const design::CampaignSpec& spec) {
  return spec.runner.kind == record::RunnerKind::python && spec.reader_canaries.value_or(false);
}

Json ask_about_base(const design::CampaignSpec& spec, std::size_t file, const std::filesystem::path& base,
                    const Launch& launch, const std::filesystem::path& log) {
  const ckpt::Reader reader(base);
  const auto roles = readable_roles(reader);
  std::vector<std::vector<std::string>> weights;
  for (WeightFolder& folder : weight_folders(reader)) weights.push_back(std::move(folder.weights));
  std::set<std::string> unread, kept, unused;
  Launch own = launch;
  own.base = base;
  for (const design::Arm& arm : spec.arms) {
    if (arm.file != file) continue;
    const auto [here, idle] = answer_of(arm, own, weights, log);
    unread.insert(here.begin(), here.end());
    unused.insert(idle.begin(), idle.end());
    for (const auto& [role, tensors] : roles) {
      if (std::includes(here.begin(), here.end(), tensors.begin(), tensors.end()))
        kept.insert(tensors.begin(), tensors.end());
    }
  }
  Json found = {{"unused", unused}};
  if (!spec.strata->alters_file()) return found;
  Json& list = found["unread"] = Json::array();
  for (const std::string& name : unread) {
    const ckpt::TensorInfo* const tensor = reader.find(name);
    if (tensor != nullptr && !kept.contains(name)) list.push_back({{"tensor", name}, {"role", tensor->role}});
  }
  return found;
}

void take_answers(design::CampaignSpec& spec, const Json& bases) {
  for (record::BaseFile& file : spec.files) {
    if (!bases.contains(file.stem)) continue;
    const Json& base = bases.at(file.stem);
    file.unused = base.value("unused", file.unused);
    if (!base.contains("unread")) continue;
    auto& unread = file.unread.emplace();
    for (const Json& one : base.at("unread"))
      unread.push_back({one.at("tensor").get<std::string>(), one.at("role").get<std::string>()});
  }
}

}  // namespace bitrift::campaign
