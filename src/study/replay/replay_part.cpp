#include "study/replay/replay_part.h"

#include <algorithm>
#include <map>
#include <utility>

#include "campaign/plan/ends.h"
#include "core/error.h"
#include "study/part/working_copy.h"

namespace bitrift::study {

std::vector<SilentFlip> silent_flips(const StudySpec& spec, const StudyJournal& journal,
                                     const std::vector<StudyFile>& files) {
  std::vector<SilentFlip> silent;
  for (const StudyFile& file : files) {
    for (std::uint64_t draw = 0; draw < spec.replay.flips; ++draw) {
      const StudyRow* const row = journal.find(flip_id(file.kind, BitStratum::payload, draw));
      if (row == nullptr) break;
      const auto& damage = std::get<DamageResult>(row->result);
      if (damage.outcome == DamageOutcome::silently_wrong)
        silent.push_back({&file, draw, damage.fault.value()});
    }
  }
  return silent;
}

Replays::Replays(const StudySpec& spec, NativeReader& reader, StudyJournal& journal,
                 campaign::Progress& progress, ReplayPlaces places, std::filesystem::path work)
    : spec_(spec),
      reader_(reader),
      journal_(journal),
      progress_(progress),
      places_(std::move(places)),
      work_(std::move(work)) {}

std::vector<std::optional<ValueChange>> Replays::changes_of(const std::vector<SilentFlip>& silent) const {
  std::vector<std::optional<ValueChange>> changes;
  std::optional<WorkingCopy> copy;
  for (std::size_t i = 0; i < silent.size(); ++i) {
    const SilentFlip& flip = silent[i];
    const FileKind& kind = flip.file->kind;
    if (i == 0 || flip.file != silent[i - 1].file) {
      copy.reset();  // it removes the files that the next one writes
      copy.emplace(flip.file->path, work_ / kind.file_name());
    }
    copy->flip(flip.fault);
    const ReaderAnswer answer = reader_.read(kind.format, copy->path(), spec_.damage.timeout_seconds, true);
    copy->flip(flip.fault);
    const Judged judged = judge(answer, reader_.facts().digests);
    if (judged.outcome != DamageOutcome::silently_wrong) {
      throw campaign::Misbehaviour(fmt::format(
          "{} was silently wrong, and is now {}{}{}", flip_id(kind, BitStratum::payload, flip.draw),
          name_of(judged.outcome), judged.message.empty() ? "" : ": ", judged.message));
    }
    changes.push_back(std::get<ReaderContents>(answer).change);
  }
  return changes;
}

void Replays::run(const std::vector<StudyFile>& files) {
  const std::vector<SilentFlip> silent = silent_flips(spec_, journal_, files);
  const auto done = std::count_if(silent.begin(), silent.end(), [&](const SilentFlip& flip) {
    return journal_.find(replay_id(flip.file->kind, flip.draw)) != nullptr;
  });
  progress_.stage(name_of(StudyPart::replay), static_cast<std::size_t>(done), silent.size());
  if (static_cast<std::size_t>(done) == silent.size()) return;
  const auto changes = changes_of(silent);
  std::vector<ReplayTrial> trials;
  for (std::size_t i = 0; i < silent.size(); ++i) {
    if (changes[i]) trials.push_back({silent[i].name(), *changes[i]});
  }
  std::map<std::string, record::Reason> reasons;
  if (!trials.empty()) {
    progress_.note(fmt::format("replay: {} trials in {}; bitrift campaign status shows how far they are",
                               trials.size(), places_.folder.string()));
    reasons = run_replay_campaign(spec_, places_, trials);
  }
  // The duration of the campaign says nothing about its rows.
  progress_.stage(name_of(StudyPart::replay), static_cast<std::size_t>(done), silent.size());
  for (std::size_t i = 0; i < silent.size(); ++i) {
    const SilentFlip& flip = silent[i];
    const FileKind& kind = flip.file->kind;
    if (journal_.find(replay_id(kind, flip.draw)) != nullptr) continue;
    ReplayResult result{flip.draw, changes[i]};
    if (changes[i]) result.reason = reasons.at(flip.name());
    journal_.append({kind.format, kind.writer, std::move(result)});
    progress_.advance();
  }
}

}  // namespace bitrift::study
