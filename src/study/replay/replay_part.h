// The part `replay`: the effect of silently wrong flips of payload on the training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "campaign/progress/progress.h"
#include "study/part/damage.h"
#include "study/replay/replay_campaign.h"
#include "study/row/study_journal.h"

namespace bitrift::study {

/// A flip that altered values and that the reader did not notice.
struct SilentFlip {
  const StudyFile* file = nullptr;
  std::uint64_t draw = 0;
  BitFault fault;
  /// The name of its trial.
  [[nodiscard]] std::string name() const { return file->kind.name() + "-" + std::to_string(draw); }
};

/// The silently wrong flips among the first ReplaySpec::flips of each file's payload, in the order of the
/// tables. The rows of the part `damage` must be there.
[[nodiscard]] std::vector<SilentFlip> silent_flips(const StudySpec& spec, const StudyJournal& journal,
                                                   const std::vector<StudyFile>& files);

/// Replays them as one campaign.
class Replays {
 public:
  /// work: a folder for private copies. All but the paths must outlive this.
  Replays(const StudySpec& spec, NativeReader& reader, StudyJournal& journal, campaign::Progress& progress,
          ReplayPlaces places, std::filesystem::path work);

  /// Adds the rows that are not there. Throws campaign::Misbehaviour if a silently wrong flip is not silently
  /// wrong any more, and as run_replay_campaign() does.
  void run(const std::vector<StudyFile>& files);

 private:
  [[nodiscard]] std::vector<std::optional<ValueChange>> changes_of(
      const std::vector<SilentFlip>& silent) const;

  const StudySpec& spec_;
  NativeReader& reader_;
  StudyJournal& journal_;
  campaign::Progress& progress_;
  ReplayPlaces places_;
  std::filesystem::path work_;
};

}  // namespace bitrift::study
