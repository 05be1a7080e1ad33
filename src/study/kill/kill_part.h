// The part `kill`: what remains of a checkpoint, and of the one before it, if a save is killed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "campaign/progress/progress.h"
#include "study/kill/traced_save.h"
#include "study/part/saver.h"
#include "study/reader/native_reader.h"
#include "study/row/study_journal.h"
#include "study/row/study_spec.h"

namespace bitrift::study {

/// Saves the base over an older checkpoint, again and again, and kills each save at another call.
class Kills {
 public:
  /// older: an HDF5 checkpoint of the same training in another state. work: a folder for the saves. All but
  /// the paths must outlive this.
  Kills(const StudySpec& spec, NativeReader& reader, Saver& saver, StudyJournal& journal,
        campaign::Progress& progress, std::filesystem::path older, const std::filesystem::path& work);

  /// Adds the rows of a kind of file that are not there. Throws campaign::Misbehaviour if a save that is not
  /// killed is incomplete, or one that is killed before its first call has altered something; Error(conflict)
  /// if a save makes other calls than before; and as trace_save() and Saver::start() do.
  void run(const FileKind& kind);

 private:
  /// Names of tensors and their digests.
  using Digests = std::map<std::string, std::string>;
  struct Left {
    TracedSave save;
    KillResult result;  ///< outcome, message and left
  };

  [[nodiscard]] std::filesystem::path target(const FileKind& kind) const;
  void save_older(const FileKind& kind);
  [[nodiscard]] Left save(const FileKind& kind, std::optional<KillPoint> point);
  void judge_left(const FileKind& kind, KillResult& result);
  [[nodiscard]] TracedSave complete_save(const FileKind& kind);
  void kill_at(const FileKind& kind, const TracedSave& complete, KillPoint point);

  const StudySpec& spec_;
  NativeReader& reader_;
  Saver& saver_;
  StudyJournal& journal_;
  campaign::Progress& progress_;
  std::filesystem::path older_, kept_, folder_;
  Digests previous_;  ///< state of the older checkpoint in the kind that is killed
  std::map<std::string, std::filesystem::path> known_;  ///< files of it or of a complete save, by name
};

/// The points at which a save with these calls is killed: before each of them, and half-way in each that
/// writes; if there are more than `most` (at least 2), as many of them, evenly spread, the first among them.
[[nodiscard]] std::vector<KillPoint> kill_points(const std::vector<AlteringCall>& calls, std::uint64_t most);

/// The outcome if a reader says `answer` about the file that a kill left.
[[nodiscard]] KillOutcome judge_kill(const ReaderAnswer& answer,
                                     const std::map<std::string, std::string>& previous,
                                     const std::map<std::string, std::string>& complete);

}  // namespace bitrift::study
