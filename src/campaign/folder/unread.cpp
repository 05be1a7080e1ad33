#include "campaign/folder/unread.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <system_error>

#include <unistd.h>

#include "campaign/launch/script_answer.h"
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

// What the script of an arm does not load.
std::set<std::string> unread_by(const design::Arm& arm, const Launch& launch,
                                const std::filesystem::path& log) {
  const TemporaryFolder folder("bitrift-unread");
  const auto answer = folder.path() / "answer.json";
  const BesideBase copy(launch.base);
  const auto [unread, failed, ended] =
      ask_script(unread_command(launch, arm, copy.path, answer, log), answer, "unread");
  if (!unread) {
    fail(ErrorCode::bad_input, "arm '{}': workers cannot be started: {}; {} says: {}", arm.name,
         failed + ended, log.string(), log_tail(log));
  }
  return unread->get<std::set<std::string>>();
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

bool looks_for_unread(const design::CampaignSpec& spec) {
  return spec.strata->alters_file() && spec.runner.kind == record::RunnerKind::python &&
         spec.reader_canaries.value_or(false);
}

std::vector<record::UnreadTensor> find_unread(const design::CampaignSpec& spec, std::size_t file,
                                              const std::filesystem::path& base, const Launch& launch,
                                              const std::filesystem::path& log) {
  const ckpt::Reader reader(base);
  const auto roles = readable_roles(reader);
  std::set<std::string> unread, kept;
  Launch own = launch;
  own.base = base;
  for (const design::Arm& arm : spec.arms) {
    if (arm.file != file) continue;
    const std::set<std::string> here = unread_by(arm, own, log);
    unread.insert(here.begin(), here.end());
    for (const auto& [role, tensors] : roles) {
      if (std::includes(here.begin(), here.end(), tensors.begin(), tensors.end()))
        kept.insert(tensors.begin(), tensors.end());
    }
  }
  std::vector<record::UnreadTensor> found;
  for (const std::string& name : unread) {
    const ckpt::TensorInfo* const tensor = reader.find(name);
    if (tensor != nullptr && !kept.contains(name)) found.push_back({name, tensor->role});
  }
  return found;
}

Json to_json(const std::vector<record::UnreadTensor>& unread) {
  Json list = Json::array();
  for (const record::UnreadTensor& one : unread) list.push_back({{"tensor", one.tensor}, {"role", one.role}});
  return list;
}

void take_unread(design::CampaignSpec& spec, const Json& bases) {
  for (record::BaseFile& file : spec.files) {
    if (!bases.contains(file.stem) || !bases.at(file.stem).contains("unread")) continue;
    auto& unread = file.unread.emplace();
    for (const Json& one : bases.at(file.stem).at("unread"))
      unread.push_back({one.at("tensor").get<std::string>(), one.at("role").get<std::string>()});
  }
}

}  // namespace bitrift::campaign
