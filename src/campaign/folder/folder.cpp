#include "campaign/folder/folder.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include <fcntl.h>

#include "campaign/folder/base_watch.h"
#include "campaign/folder/identity.h"
#include "campaign/folder/numeric_environment.h"
#include "campaign/folder/own_folder.h"
#include "campaign/folder/unread.h"
#include "campaign/journal/journal.h"
#include "campaign/launch/launch.h"
#include "campaign/plan/ends.h"
#include "campaign/plan/limits.h"
#include "ckpt/set/checkpoint_files.h"
#include "ckpt/set/file_set.h"
#include "ckpt/set/open_checkpoint.h"
#include "core/error.h"
#include "core/log.h"
#include "core/process/subprocess.h"
#include "design/extension.h"
#include "record/json/json_diff.h"

namespace bitrift::campaign {
namespace {

using record::Json;

// A base that takes longer is better trained by `bitrift-train train` and named as base.checkpoint.
constexpr std::chrono::hours base_deadline{6};

// Unfinished files of a killed start, whose names begin with `of`: they have names of PendingFile.
void remove_unfinished(const std::filesystem::path& folder, const std::string& of = "") {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("." + of) && name.find(".tmp-") != std::string::npos) {
      std::filesystem::remove_all(entry.path(), ignored);
    }
  }
}

// Before anything of it is copied. The copy is found by its folder, so that an index must be the one that is
// found there.
void check_base_folder(const std::filesystem::path& checkpoint) {
  static_cast<void>(ckpt::open_checkpoint(checkpoint));
  const auto root = ckpt::root_of_set(checkpoint);
  if (ckpt::find_file_set(checkpoint)->index == ckpt::find_file_set(root)->index) return;
  fail(ErrorCode::bad_input,
       "{}: is not the index that {} is read by, {}; copy its files to a folder of their own",
       checkpoint.string(), root.string(), ckpt::find_file_set(root)->index);
}

// Its files cannot be written to by mistake: the copies for runs are links to them.
void copy_base_folder(const std::filesystem::path& checkpoint, const std::filesystem::path& out) {
  const TemporaryFolder scratch("." + out.filename().string() + ".tmp", out.parent_path());
  const auto pending = scratch.path() / "base";
  copy_folder(ckpt::root_of_set(checkpoint), pending);
  using std::filesystem::perms;
  for (const auto& file : ckpt::files_of(pending))
    std::filesystem::permissions(file, perms::owner_read | perms::group_read);
  std::filesystem::rename(pending, out);
}

// Waits for the trainer, unless an interrupt comes.
ExitStatus wait_for_training(Subprocess& child, const std::filesystem::path& log) {
  const auto limit = std::chrono::steady_clock::now() + base_deadline;
  while (std::chrono::steady_clock::now() < limit) {
    if (const auto status = child.wait(0.1)) return *status;
    cut_log(log);
    if (!InterruptGuard::raised()) continue;
    child.terminate(5, SIGINT);  // its launcher has ranks to end, and an unfinished base is of no use
    InterruptGuard::check();
  }
  child.terminate(5, SIGINT);
  fail(ErrorCode::io,
       "training the base took more than {} h: train it with `bitrift-train train` and name it as "
       "base.checkpoint; log: {}",
       base_deadline.count(), log.string());
}

}  // namespace

std::filesystem::path Layout::base(const std::string& stem) const {
  std::error_code none;
  for (const std::string_view extension : record::kept_extensions()) {
    auto path = root / (stem + std::string(extension));
    if (std::filesystem::exists(path, none)) return path;
  }
  return root / (stem + std::string(record::kept_extensions().front()));
}

std::filesystem::path Layout::round(std::uint64_t number) const {
  return root / "rounds" / fmt::format("{:04d}.json", number);
}

StoredCampaign read_stored_campaign(const Layout& layout) {
  const auto path = layout.identity();
  if (!std::filesystem::exists(path)) {
    fail(ErrorCode::not_found,
         "{}: no campaign here (no campaign.json); start one with `bitrift campaign run`",
         layout.root.string());
  }
  const Json stored = read_identity(path);
  try {
    StoredCampaign campaign;
    campaign.spec = design::campaign_spec_from_json(stored.at("spec"));
    campaign.drills = parse_drills(stored.at("drills").get<std::vector<std::string>>());
    campaign.spec.earlier = earlier_specs(stored);
    campaign.shards = stored.value("shards", 0);
    campaign.environment = stored.value("environment", Json());
    if (stored.contains("bases")) {
      for (const auto& [stem, base] : stored.at("bases").items())
        campaign.base_digests[stem] = base.at("digest").get<std::string>();
      take_answers(campaign.spec, stored.at("bases"));
    }
    return campaign;
  } catch (const Json::exception& error) {
    fail(ErrorCode::bad_file, "{}: not a campaign's identity ({}); restore it", path.string(), error.what());
  }
}

bool began_without_reader_canaries(const std::filesystem::path& root) {
  try {
    return !read_stored_campaign({root}).spec.reader_canaries.has_value();
  } catch (const Error&) {
    return false;  // there is no campaign, or the driver's own check reports the problem
  }
}

std::vector<record::Round> read_rounds(const Layout& layout) {
  std::vector<record::Round> rounds;
  for (auto path = layout.round(0); std::filesystem::exists(path); path = layout.round(rounds.size())) {
    const Json stored = record::parse_file(path).value;
    try {
      rounds.push_back(record::round_from_json(stored));
    } catch (const Error& error) {
      fail(ErrorCode::bad_file, "{}: {}; restore it", path.string(), error.what());
    }
  }
  return rounds;
}

void check_bases(const Layout& layout, const std::map<std::string, std::string>& digests) {
  for (const auto& [stem, digest] : digests) check_digest(layout.base(stem), digest);
}

Bases open_bases(const Layout& layout, const design::CampaignSpec& spec) {
  Bases bases;
  for (const record::BaseFile& file : spec.files) {
    ckpt::Reader& base = bases.emplace_back(layout.base(file.stem));
    std::vector<std::string> unread;
    for (const record::UnreadTensor& one : file.unread.value_or(std::vector<record::UnreadTensor>()))
      unread.push_back(one.tensor);
    if (!unread.empty()) base.leave_out(unread);
  }
  return bases;
}

Folder::Folder(const std::filesystem::path& root, const design::CampaignSpec& spec, const Drills& drills,
               const std::vector<std::string>& command, int shards, OtherSpec other)
    : layout_{root}, spec_(spec), shards_(shards), command_(command) {
  refuse_foreign(root, layout_.identity(), {"lock", "rounds", "logs", "work"});
  if (other == OtherSpec::extend && !std::filesystem::exists(layout_.identity())) {
    fail(ErrorCode::bad_input, "{}: there is no campaign to extend; leave out --extend to start one",
         root.string());
  }
  make_folder(root);
  if (shards_ == 0) lock_ = lock_folder(root, layout_.lock(), "bitrift campaign run");
  for (const auto& folder : {root / "rounds", root / "logs"}) make_folder(folder);
  if (shards_ == 0) {  // otherwise they may belong to a running shard
    remove_unfinished(root);
    remove_unfinished(root / "rounds");
  }
  const Json fresh = new_identity(spec, drills, command, shards);
  identity_ = fresh;
  if (!std::filesystem::exists(layout_.identity()) && publish(layout_.identity(), fresh.dump(2) + "\n"))
    return;
  identity_ = read_identity(layout_.identity());
  compare_shards(identity_);
  const bool other_deadline = take_start_deadline();
  const auto difference = json_difference(identity_.value("spec", Json()), fresh.at("spec"));
  if (difference && shards_ == 0 && !has_rows()) {
    replace_spec(fresh, change_text(*difference));
  } else {
    compare_stored(drills, other);
    // Only a start that is not refused changes the folder.
    if (other_deadline && shards_ == 0) store_identity();
  }
}

// worker.start_deadline_s decides no row: the one of this start counts. Returns whether it differs.
bool Folder::take_start_deadline() {
  if (!identity_.contains(Json::json_pointer("/spec/worker"))) return false;
  const Json worker = to_json(spec_).at("worker");
  const char* const key = "start_deadline_s";
  Json& stored = identity_["spec"]["worker"];
  const Json before = stored;
  stored.erase(key);
  if (worker.contains(key)) stored[key] = worker.at(key);
  return stored != before;
}

void Folder::compare_shards(const Json& stored) const {
  const int before = stored.value("shards", 0);
  if (before == shards_) return;
  const std::string folder = layout_.root.string();
  if (before == 0) {
    fail(ErrorCode::conflict, "{}: was started without --shard: run it without --shard, or give another -o",
         folder);
  }
  if (shards_ == 0) {
    fail(ErrorCode::conflict,
         "{}: is divided into {} shards: give --shard 1/{} to {}/{}, or another -o; when all are done, "
         "`bitrift "
         "campaign merge` joins them",
         folder, before, before, before, before);
  }
  fail(ErrorCode::conflict,
       "{}: is divided into {} shards, not {}: give --shard 1/{} to {}/{}, or another -o", folder, before,
       shards_, before, before, before);
}

void Folder::compare_stored(const Drills& drills, OtherSpec other) {
  const std::string folder = layout_.root.string();
  spec_.earlier = earlier_specs(identity_);
  if (const auto difference = json_difference(identity_.value("drills", Json()), campaign::to_json(drills))) {
    fail(ErrorCode::conflict, "{}: was started with other drills: {}; give another -o, or the old drills",
         folder, change_text(*difference));
  }
  const Json stored = identity_.value("spec", Json());
  const auto difference = json_difference(stored, to_json(spec_));
  if (!difference) return;
  const design::CampaignSpec before = design::campaign_spec_from_json(stored);
  const auto problem = design::extension_problem(before, spec_);
  if (problem && other == OtherSpec::extend) {
    fail(ErrorCode::conflict,
         "{}: this does not extend it: {}; only draws, strata and arms can be added, lists at their end",
         folder, *problem);
  }
  if (other == OtherSpec::refuse) {
    fail(ErrorCode::conflict, "{}: was started with another spec: {}; give another -o, {}", folder,
         change_text(*difference),
         problem ? "or the old spec" : "the old spec, or --extend to add to this campaign");
  }
  spec_.earlier.push_back(before);
  extends_ = true;
  note_ = "extending the campaign: " + change_text(*difference);
}

bool Folder::has_rows() const {
  if (!std::filesystem::exists(layout_.journal())) return false;
  const JournalRows rows = read_journal(layout_.journal());
  return !rows.effective().empty() || rows.retracted() > 0;
}

// The order of these steps lets a kill at any moment leave a folder that the next start accepts.
void Folder::replace_spec(const Json& fresh, const std::string& difference) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(layout_.root / "rounds", ignored))
    std::filesystem::remove(entry.path(), ignored);
  const Json bases = identity_.value("bases", Json::object());
  const bool same = identity_.value(Json::json_pointer("/spec/base"), Json()) == fresh.at("spec").at("base");
  identity_ = fresh;
  std::vector<std::string> dropped;
  for (const auto& [stem, base] : bases.items()) {
    const bool wanted =
        std::any_of(spec_.files.begin(), spec_.files.end(),
                    [&, &name = stem](const record::BaseFile& file) { return file.stem == name; });
    if (same && wanted) {
      identity_["bases"][stem] = base;
    } else {
      dropped.push_back(stem);
    }
  }
  store_identity();
  for (const std::string& stem : dropped) std::filesystem::remove_all(layout_.base(stem), ignored);
  note_ = fmt::format("{} holds no row yet, so its spec is replaced: {}", layout_.root.string(), difference);
}

void Folder::extend() {
  if (!std::exchange(extends_, false)) return;
  if (shards_ > 0) identity_ = read_identity(layout_.identity());  // other drivers write to it
  static_cast<void>(take_start_deadline());
  const Json stored = identity_.at("spec");
  if (stored == to_json(spec_)) return;
  if (const auto difference = json_difference(stored, to_json(spec_.earlier.back()))) {
    fail(ErrorCode::conflict, "{}: another start extended it in the meantime: {}; run the same command again",
         layout_.root.string(), change_text(*difference));
  }
  add_extension(identity_, spec_, command_);
  store_identity();
}

void Folder::store_identity() { replace_text(layout_.identity(), identity_.dump(2) + "\n"); }

void Folder::remove_unfinished_bases() {
  for (const record::BaseFile& file : spec_.files) {
    for (const std::string_view extension : record::kept_extensions())
      remove_unfinished(layout_.root, file.stem + std::string(extension) + ".tmp");
  }
}

bool Folder::publish(const std::filesystem::path& path, const std::string& text) {
  if (shards_ > 0) return publish_text(path, text);
  replace_text(path, text);  // this is the only process here, and not every file system can publish
  return true;
}

bool Folder::has_bases() {
  if (shards_ > 0) identity_ = read_identity(layout_.identity());  // other drivers write to it
  return identity_.contains("bases") && identity_.at("bases").size() >= spec_.files.size();
}

void Folder::prepare_bases(const Launch& launch, const std::function<void(std::string)>& say) {
  const bool fresh = asks_about_bases(spec_) && shards_ == 0 && !has_rows();
  for (std::size_t i = 0; i < spec_.files.size(); ++i) {
    const record::BaseFile& file = spec_.files[i];
    const auto& checkpoint = spec_.bases[file.base].checkpoint;
    const bool copied = checkpoint && file.precision.empty();
    if (identity_.contains("bases") && identity_["bases"].contains(file.stem)) {
      const auto digest = identity_["bases"][file.stem].at("digest").get<std::string>();
      check_bases(layout_, {{file.stem, digest}});
      if (copied && std::filesystem::exists(*checkpoint) && ckpt::digest_of(*checkpoint) != digest) {
        fail(ErrorCode::conflict,
             "{}: the checkpoint that {} was copied from changed since the campaign began: restore it, or "
             "start a new campaign in another folder",
             checkpoint->string(), layout_.base(file.stem).filename().string());
      }
      if (!fresh) continue;
      identity_["bases"][file.stem].update(asked_of(i, launch, say));  // the script may have changed
      store_identity();
      continue;
    }
    // A base whose digest was not stored yet may come from anywhere, so it is made again.
    if (!copied) {
      say(fmt::format("{} {}", file.precision.empty() ? "training" : "converting",
                      layout_.base(file.stem).filename().string()));
    }
    make_base(file, launch.program);
    const std::string source = copied                   ? checkpoint->string()
                               : file.precision.empty() ? "trained"
                                                        : "converted to " + file.precision;
    Json made = {{"digest", ckpt::digest_of(layout_.base(file.stem))}, {"source", source}};
    if (asks_about_bases(spec_)) made.update(asked_of(i, launch, say));
    identity_["bases"][file.stem] = std::move(made);
    store_identity();
  }
}

Json Folder::asked_of(std::size_t file, const Launch& launch,
                      const std::function<void(std::string)>& say) const {
  say("looking for tensors that the script does not load or use");
  const std::string& stem = spec_.files[file].stem;
  return ask_about_base(spec_, file, layout_.base(stem), launch, layout_.log("unread"));
}

void Folder::note_answers() { take_answers(spec_, identity_.at("bases")); }

std::map<std::string, std::string> Folder::base_digests() const {
  std::map<std::string, std::string> digests;
  for (const auto& [stem, base] : identity_.at("bases").items()) {
    digests.emplace(stem, base.at("digest").get<std::string>());
  }
  return digests;
}

void Folder::make_base(const record::BaseFile& file, const std::filesystem::path& trainer) {
  const record::BaseSpec& base = spec_.bases[file.base];
  for (const std::string_view extension : record::kept_extensions())  // of a start that was killed
    std::filesystem::remove_all(layout_.root / (file.stem + std::string(extension)));
  const bool copied = base.checkpoint && file.precision.empty();
  const auto extension = record::kept_extension(copied ? *base.checkpoint : "");
  const auto out = layout_.root / (file.stem + std::string(extension));
  const auto log = layout_.log(file.stem);
  if (!file.precision.empty()) {
    const auto plain = std::find_if(spec_.files.begin(), spec_.files.end(), [&](const record::BaseFile& one) {
      return one.base == file.base && one.precision.empty();
    });
    const auto from = layout_.base(plain->stem);
    return run_trainer(convert_command(trainer, from, file.precision, out, log), out,
                       "converting " + from.string() + " to " + file.precision, log);
  }
  if (copied && std::filesystem::is_directory(ckpt::root_of_set(*base.checkpoint))) {
    check_base_folder(*base.checkpoint);
    return copy_base_folder(*base.checkpoint, out);
  }
  if (copied) {
    PendingFile pending(out);
    copy_file_bytes(*base.checkpoint, pending.path());
    return pending.commit();
  }
  Json text = Json::parse(record::to_text(*base.train));
  text["parallel"] = record::to_json(base.train->parallel);
  const auto spec = layout_.base_spec(file.stem);
  replace_text(spec, text.dump(2) + "\n");
  run_trainer(train_command(trainer, base.train->parallel.ranks, spec, out, log), out, "training the base",
              log);
}

void Folder::run_trainer(const Command& command, const std::filesystem::path& out, const std::string& what,
                         const std::filesystem::path& log) {
  Subprocess child(command);
  const ExitStatus status = wait_for_training(child, log);
  if (status.ok() && std::filesystem::exists(out)) return;
  fail(status.code == 2 ? ErrorCode::bad_input : ErrorCode::internal, "{} ended with {}; {} says: {}", what,
       status.text(), log.string(), log_tail(log));
}

void Folder::publish_round(const record::Round& planned) {
  const auto path = layout_.round(planned.number);
  const Json round = to_json(planned);
  if (!std::filesystem::exists(path) && publish(path, round.dump(2) + "\n")) return;
  const Json stored = record::parse_file(path).value;
  if (const auto difference = json_difference(stored, round)) {
    fail(ErrorCode::conflict,
         "{}: the plan does not follow from the spec, the base and the rows: {} is {}, expected {}; restore "
         "the file",
         path.string(), difference->key, difference->first, difference->second);
  }
}

std::string Folder::environment_hint() const {
  return campaign::environment_hint(identity_.value("environment", Json()));
}

void Folder::note_trainer(const Json& environment) {
  if (identity_.contains("trainer")) return;
  identity_["trainer"] = environment;
  store_identity();
}

}  // namespace bitrift::campaign
