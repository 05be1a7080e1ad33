#include "study/study_folder.h"

#include <optional>
#include <set>
#include <system_error>

#include <fcntl.h>

#include "campaign/launch/launch.h"
#include "core/error.h"
#include "record/json/json_diff.h"
#include "record/provenance.h"

namespace bitrift::study {
namespace {

using record::Json;

constexpr const char* schema = "bitrift/checkpoint-study/1";

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail(ErrorCode::io, "{}: cannot create the folder: {}", path.string(), error.message());
}

// "spec.damage.seed was 1, is now 2"
std::optional<std::string> change(const char* key, const Json& before, const Json& now) {
  const auto difference = campaign::json_difference(before, now);
  if (!difference) return std::nullopt;
  return fmt::format("{}{}{} was {}, is now {}", key, difference->key.empty() ? "" : ".", difference->key,
                     difference->first, difference->second);
}

Json read_identity(const std::filesystem::path& path) {
  Json identity = record::parse_file(path).value;
  if (identity.value("schema", "") != schema)
    fail(ErrorCode::bad_file, "{}: its schema is not {}; give another -o", path.string(), schema);
  return identity;
}

std::vector<WrittenExtent> extents_from(const Json& value) {
  std::vector<WrittenExtent> extents;
  for (const Json& one : value) {
    extents.push_back({one.at(0).get<std::string>(), one.at(1).get<std::uint64_t>(),
                       one.at(2).get<std::uint64_t>(), one.at(3).get<std::string>()});
  }
  return extents;
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
  refuse_unknown_files();
  make_folder(root);
  lock_ = open_file(layout_.lock(), O_RDWR | O_CREAT);
  try {
    lock_exclusive(lock_, layout_.lock());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::busy) throw;
    fail(ErrorCode::busy,
         "{}: another `bitrift-train checkpoint-study` is running in this folder; wait for it or stop it",
         root.string());
  }
  std::error_code ignored;
  std::filesystem::remove_all(layout_.work(), ignored);
  for (const auto& folder : {layout_.files(), root / "logs"}) make_folder(folder);
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

void StudyFolder::refuse_unknown_files() const {
  static const std::set<std::string> ours = {"lock", "files", "logs", "work"};
  std::error_code error;
  const std::string root = layout_.root.string();
  if (!std::filesystem::exists(layout_.root, error)) return;
  if (!std::filesystem::is_directory(layout_.root, error))
    fail(ErrorCode::bad_input, "{}: not a folder; give another -o", root);
  if (std::filesystem::exists(layout_.identity(), error)) return;
  for (const auto& entry : std::filesystem::directory_iterator(layout_.root, error)) {
    const std::string name = entry.path().filename().string();
    if (ours.contains(name) || name.starts_with(".study.json.tmp-")) continue;
    fail(ErrorCode::bad_input, "{}: holds {} but no study.json; give an empty or new folder", root, name);
  }
  if (error) fail(ErrorCode::io, "{}: cannot be listed: {}", root, error.message());
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
    // The name is part of some formats, so the file has it from the start.
    const auto fresh = layout_.work() / kind.file_name();
    const auto extents = saver.save(kind, fresh);
    std::filesystem::remove_all(path);
    std::filesystem::rename(fresh, path);
    identity_["files"][name] = {{"digest", digest_of_files(path)}, {"extents", extents_json(extents)}};
    store();
  }
  const Json& stored = identity_["files"][name];
  check_unchanged(path, stored.at("digest"));
  const bool folder = std::filesystem::is_directory(path);
  return {kind, path, folder ? FileBits(path, extents_from(stored.at("extents"))) : FileBits(path)};
}

}  // namespace bitrift::study
