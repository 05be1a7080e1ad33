#include "study/kill/kill_part.h"

#include <algorithm>
#include <csignal>
#include <limits>
#include <system_error>
#include <utility>

#include "campaign/folder/own_folder.h"
#include "campaign/plan/ends.h"
#include "core/error.h"
#include "study/part/saved_files.h"

namespace bitrift::study {
namespace {

std::vector<std::string> names_of_calls(const std::vector<AlteringCall>& calls) {
  std::vector<std::string> names;
  names.reserve(calls.size());
  for (const AlteringCall& call : calls) names.push_back(call.name);
  return names;
}

std::string how_text(const KillResult& result) {
  return fmt::format("the outcome is {}{}{}", name_of(result.outcome), result.message.empty() ? "" : ": ",
                     result.message);
}

}  // namespace

std::vector<KillPoint> kill_points(const std::vector<AlteringCall>& calls, std::uint64_t most) {
  std::vector<KillPoint> all;
  for (std::size_t call = 0; call < calls.size(); ++call) {
    all.push_back({call, false});
    if (calls[call].bytes >= 2) all.push_back({call, true});
  }
  if (all.size() <= most) return all;
  std::vector<KillPoint> some;
  for (std::uint64_t i = 0; i < most; ++i) some.push_back(all[i * (all.size() - 1) / (most - 1)]);
  return some;
}

KillOutcome judge_kill(const ReaderAnswer& answer, const std::map<std::string, std::string>& previous,
                       const std::map<std::string, std::string>& complete) {
  switch (judge(answer, complete).outcome) {
    case DamageOutcome::same:
      return KillOutcome::complete;
    case DamageOutcome::detected:
      return KillOutcome::detected;
    case DamageOutcome::crash:
      return KillOutcome::crash;
    case DamageOutcome::hang:
      return KillOutcome::hang;
    case DamageOutcome::silently_wrong:
      break;
  }
  return judge(answer, previous).outcome == DamageOutcome::same ? KillOutcome::previous
                                                                : KillOutcome::silently_wrong;
}

Kills::Kills(const StudySpec& spec, NativeReader& reader, Saver& saver, StudyJournal& journal,
             campaign::Progress& progress, std::filesystem::path older, const std::filesystem::path& work)
    : spec_(spec),
      reader_(reader),
      saver_(saver),
      journal_(journal),
      progress_(progress),
      older_(std::move(older)) {
  campaign::make_folder(work);
  // The name in the kernel's spelling, because calls are compared with it.
  const auto here = std::filesystem::canonical(work);
  kept_ = here / "older";
  folder_ = here / "save";
}

std::filesystem::path Kills::target(const FileKind& kind) const {
  return folder_ / (std::string("checkpoint") + kind.extension);
}

void Kills::save_older(const FileKind& kind) {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
  campaign::make_folder(folder_);
  (void)saver_.save(kind, target(kind), older_);
  known_ = saved_files(folder_);
  copy_saved(folder_, kept_);
  const ReaderAnswer answer = reader_.read(kind.format, target(kind), spec_.damage.timeout_seconds);
  const auto* contents = std::get_if<ReaderContents>(&answer);
  if (contents == nullptr || contents->digests == reader_.facts().digests) {
    throw campaign::Misbehaviour(fmt::format("{}: the older checkpoint, written whole, {}", kind.name(),
                                             contents == nullptr ? "is not read" : "is read as the base"));
  }
  previous_ = contents->digests;
}

void Kills::judge_left(const FileKind& kind, KillResult& result) {
  const ReaderAnswer answer = reader_.read(kind.format, target(kind), spec_.damage.timeout_seconds);
  const auto& complete = reader_.facts().digests;
  result.outcome = judge_kill(answer, previous_, complete);
  const bool whole = result.outcome == KillOutcome::previous || result.outcome == KillOutcome::complete;
  if (!whole) result.message = judge(answer, complete).message;
}

Kills::Left Kills::save(const FileKind& kind, std::optional<KillPoint> point) {
  copy_saved(kept_, folder_);
  Left left{trace_save(saver_.start(kind, target(kind)), folder_, point), {}};
  judge_left(kind, left.result);
  auto files = saved_files(folder_);
  if (!point) known_.merge(files);  // keeps the known files in `files`
  left.result.left = static_cast<std::uint64_t>(std::count_if(
      files.begin(), files.end(), [&](const auto& file) { return !known_.contains(file.first); }));
  return left;
}

TracedSave Kills::complete_save(const FileKind& kind) {
  Left left = save(kind, std::nullopt);
  if (!left.save.status.ok() || left.result.outcome != KillOutcome::complete) {
    throw campaign::Misbehaviour(fmt::format("{}: a save that is not killed ends with {}, and {}",
                                             kind.name(), left.save.status.text(), how_text(left.result)));
  }
  left.result.calls = names_of_calls(left.save.calls);
  left.result.points = kill_points(left.save.calls, std::numeric_limits<std::uint64_t>::max()).size();
  if (const StudyRow* row = journal_.find(kill_id(kind, 0, false))) {
    if (std::get<KillResult>(row->result).calls == left.result.calls) return std::move(left.save);
    fail(ErrorCode::conflict, "{}: a save makes other calls than it did before; give another -o",
         kind.name());
  }
  journal_.append({kind.format, kind.writer, std::move(left.result)});
  return std::move(left.save);
}

void Kills::kill_at(const FileKind& kind, const TracedSave& complete, KillPoint point) {
  if (journal_.find(kill_id(kind, point.call + 1, point.half)) != nullptr) return;
  Left left = save(kind, point);
  const std::string& expected = complete.calls[point.call].name;
  const auto& calls = left.save.calls;
  if (left.save.status.signal != SIGKILL || calls.size() <= point.call ||
      calls[point.call].name != expected) {
    fail(ErrorCode::conflict,
         "{}: a save that was to be killed at call {}, {}, made other calls, and ended with {}", kind.name(),
         point.call + 1, expected, left.save.status.text());
  }
  if (point == KillPoint{} && left.result.outcome != KillOutcome::previous) {
    throw campaign::Misbehaviour(fmt::format("{}: a save is killed before its first call, and {}",
                                             kind.name(), how_text(left.result)));
  }
  left.result.call = point.call + 1;
  left.result.half = point.half;
  left.result.calls = {expected};
  journal_.append({kind.format, kind.writer, std::move(left.result)});
  progress_.advance();
}

void Kills::run(const FileKind& kind) {
  save_older(kind);
  const TracedSave complete = complete_save(kind);
  const auto points = kill_points(complete.calls, spec_.kill.kills);
  if (points.empty()) {
    throw campaign::Misbehaviour(
        fmt::format("{}: a save makes no call that alters files in {}", kind.name(), folder_.string()));
  }
  const auto done = std::count_if(points.begin(), points.end(), [&](const KillPoint& point) {
    return journal_.find(kill_id(kind, point.call + 1, point.half)) != nullptr;
  });
  progress_.stage("kill " + kind.name(), static_cast<std::size_t>(done), points.size());
  for (const KillPoint& point : points) kill_at(kind, complete, point);
}

}  // namespace bitrift::study
