#include "study/study_folder.h"

#include <optional>
#include <system_error>

#include "campaign/folder/own_folder.h"
#include "campaign/launch/launch.h"
#include "core/error.h"
#include "record/json/json_diff.h"
#include "record/provenance.h"
#include "study/row/base_checkpoint.h"

namespace bitrift::study {
namespace {

using record::Json;

constexpr const char* schema = "bitrift/checkpoint-study/1";

// "spec.damage.seed was 1, is now 2"
std::optional<std::string> change(const char* key, const Json& before, const Json& now) {
  const auto difference = campaign::json_difference(before, now);
  if (!difference) return std::nullopt;
  return fmt::format("{}{}{} was {}, is now {}", key, difference->key.empty() ? "" : ".", difference->key,
                     difference->first, difference->second);
}

std::vector<WrittenExtent> extents_from(const Json& value) {
  std::vector<WrittenExtent> extents;
  for (const Json& one : value) {
    extents.push_back({one.at(0).get<std::string>(), one.at(1).get<std::uint64_t>(),
                       one.at(2).get<std::uint64_t>(), one.at(3).get<std::string>()});
  }
  return extents;
}

// Checks the keys that the members below read.
void check_identity(const Json& identity, const std::filesystem::path& path) {
  try {
    for (const char* const one : {"base", "older", "fresh"}) {
      if (identity.contains(one)) (void)identity[one].at("digest").get<std::string>();
    }
    const Json models = identity.value("models", Json::object());
    for (const auto& [name, model] : models.items()) (void)model.at("digest").get<std::string>();
    const Json files = identity.value("files", Json::object());
    for (const auto& [name, file] : files.items()) {
      (void)file.at("digest").get<std::string>();
      (void)extents_from(file.at("extents"));
    }
  } catch (const Json::exception& error) {
    fail(ErrorCode::bad_file, "{}: is damaged ({}); restore it, or give another -o", path.string(),
         error.what());
  }
}

Json read_identity(const std::filesystem::path& path) {
  Json identity = record::parse_file(path).value;
  if (identity.value("schema", "") != schema)
    fail(ErrorCode::bad_file, "{}: its schema is not {}; give another -o", path.string(), schema);
  check_identity(identity, path);
  return identity;
}

Json extents_json(const std::vector<WrittenExtent>& extents) {
  Json list = Json::array();
  for (const WrittenExtent& one : extents) list.push_back({one.file, one.first, one.end, one.tensor});
  return list;
}

void check_unchanged(const std::filesystem::path& path, const std::string& digest) {
  if (digest_of_files(path) == digest) return;
  fail(ErrorCode::conflict, "{}: changed since the study began: restore it, or give another -o",
       path.string());
}

}  // namespace

StudyFolder::StudyFolder(const std::filesystem::path& root, const StudySpec& spec, const std::string& drill,
                         const std::vector<std::string>& command)
    : layout_{root} {
  campaign::refuse_foreign(root, layout_.identity(), {"lock", "files", "logs", "work"});
  campaign::make_folder(root);
  lock_ = campaign::lock_folder(root, layout_.lock(), "bitrift-train checkpoint-study");
  std::error_code ignored;
  std::filesystem::remove_all(layout_.work(), ignored);
  for (const auto& folder : {layout_.files(), root / "logs"}) campaign::make_folder(folder);
  if (!std::filesystem::exists(layout_.identity())) {
    identity_ = {{"schema", schema},
                 {"spec", to_json(spec)},
                 {"drill", drill},
                 {"provenance", record::provenance(command)}};
    store();
    return;
  }
  identity_ = read_identity(layout_.identity());
  auto difference = change("spec", identity_.value("spec", Json()), to_json(spec));
  if (!difference) difference = change("drill", identity_.value("drill", Json()), drill);
  if (difference) {
    fail(ErrorCode::conflict, "{}: was started with another spec: {}; give another -o, or the old spec",
         root.string(), *difference);
  }
}

void StudyFolder::store() const { replace_text(layout_.identity(), identity_.dump(2) + "\n"); }

void StudyFolder::prepare_base(const StudySpec& spec, const std::filesystem::path& trainer) {
  const auto path = layout_.base();
  if (identity_.contains("base")) return check_unchanged(path, identity_["base"].at("digest"));
  if (spec.base.checkpoint) {
    PendingFile pending(path);
    copy_file_bytes(*spec.base.checkpoint, pending.path());
    pending.commit();
  } else {
    train(trainer, *spec.base.train, spec.base.steps, layout_.base_spec(), path);
  }
  identity_["base"] = {{"digest", digest_of_files(path)}};
  store();
}

std::vector<std::filesystem::path> StudyFolder::prepare_models(const StudySpec& spec,
                                                               const std::filesystem::path& trainer) {
  std::vector<std::filesystem::path> files;
  for (std::size_t i = 0; i < spec.cost.models.size(); ++i) {
    const std::string name = fmt::format("model-{}", i + 1);
    files.push_back(layout_.files() / (name + ".h5"));
    Json& known = identity_["models"][name];
    if (!known.is_null()) {
      check_unchanged(files.back(), known.at("digest"));
      continue;
    }
    train(trainer, spec.cost.models[i], 1, layout_.files() / (name + "-train.json"), files.back());
    known = {{"digest", digest_of_files(files.back())}};
    store();
  }
  return files;
}

std::filesystem::path StudyFolder::prepare_older(const std::filesystem::path& trainer) {
  const BaseCheckpoint base = read_base(layout_.base());
  return prepare_other("older", base.step == 1 ? 2 : 1, base.training, trainer);
}

std::filesystem::path StudyFolder::prepare_fresh(const std::filesystem::path& trainer) {
  return prepare_other("fresh", 0, read_base(layout_.base()).training, trainer);
}

std::filesystem::path StudyFolder::prepare_other(const std::string& name, std::int64_t steps,
                                                 const record::TrainingSpec& training,
                                                 const std::filesystem::path& trainer) {
  std::filesystem::path path = layout_.files() / (name + ".h5");
  if (identity_.contains(name)) {
    check_unchanged(path, identity_[name].at("digest"));
    return path;
  }
  train(trainer, training, steps, layout_.files() / (name + "-train.json"), path);
  identity_[name] = {{"digest", digest_of_files(path)}};
  store();
  return path;
}

void StudyFolder::train(const std::filesystem::path& trainer, const record::TrainingSpec& training,
                        std::optional<std::int64_t> steps, const std::filesystem::path& spec,
                        const std::filesystem::path& out) const {
  Json text = Json::parse(record::to_text(training));
  text["parallel"] = record::to_json(training.parallel);
  replace_text(spec, text.dump(2) + "\n");
  Command command = campaign::train_command(trainer, training.parallel.ranks, spec, out, layout_.log("base"));
  if (steps) command.arguments.insert(command.arguments.end(), {"--steps", std::to_string(*steps)});
  run_program(command, "training " + out.string());
}

void StudyFolder::note_versions(const Json& versions) {
  if (!identity_.contains("versions")) {
    identity_["versions"] = versions;
    return store();
  }
  const auto difference = change("versions", identity_["versions"], versions);
  if (!difference) return;
  fail(ErrorCode::conflict,
       "{}: the rows were measured with other libraries: {}; give another -o, or the old libraries",
       layout_.root.string(), *difference);
}

StudyFile StudyFolder::prepare_file(const FileKind& kind, Saver& saver) {
  const auto path = layout_.files() / kind.file_name();
  const std::string name = kind.name();
  if (!identity_.contains("files") || !identity_["files"].contains(name)) {
    // The name is part of some formats, so the file is created under it.
    const auto fresh = layout_.work() / kind.file_name();
    const auto extents = saver.save(kind, fresh);
    std::filesystem::remove_all(path);
    std::filesystem::rename(fresh, path);
    identity_["files"][name] = {{"digest", digest_of_files(path)}, {"extents", extents_json(extents)}};
    store();
  }
  const Json& stored = identity_["files"][name];
  check_unchanged(path, stored.at("digest"));
  return {kind, path, FileBits(path, extents_from(stored.at("extents")))};
}

}  // namespace bitrift::study
