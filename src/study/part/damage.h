// The part `damage`: the reaction of a native reader to every single flipped bit of a sample.
#pragma once

#include <cstdint>
#include <filesystem>

#include "campaign/progress/progress.h"
#include "study/part/file_bits.h"
#include "study/part/working_copy.h"
#include "study/reader/native_reader.h"
#include "study/row/study_journal.h"
#include "study/row/study_spec.h"

namespace bitrift::study {

/// A file of the study.
struct StudyFile {
  FileKind kind;
  std::filesystem::path path;
  FileBits bits;
};

/// Rows of the part that a file has: canaries and flips.
[[nodiscard]] std::uint64_t damage_rows(const StudyFile& file, const DamageSpec& spec);

/// Reads damaged copies of one file after another, and keeps a row of each read.
class Damage {
 public:
  /// work: a folder for private copies. read_original: drill: the reader gets the original in place of the
  /// copy. All must outlive this.
  Damage(const DamageSpec& spec, NativeReader& reader, StudyJournal& journal, campaign::Progress& progress,
         std::filesystem::path work, bool read_original);

  /// Adds the rows of a file that are not there. Throws campaign::Misbehaviour when a canary shows that the
  /// outcomes could not be trusted, or the copy differs at the end; Error(conflict) when a row does not
  /// follow from the spec and the file.
  void run(const StudyFile& file);

 private:
  [[nodiscard]] Judged read(const StudyFile& file, const WorkingCopy& copy);
  /// Afterwards the copy is as before.
  [[nodiscard]] Judged read_flipped(const StudyFile& file, const WorkingCopy& copy, const BitFault& fault);
  void check_canary(const StudyFile& file, const WorkingCopy& copy, DamageCanary canary);
  void run_stratum(const StudyFile& file, const WorkingCopy& copy, BitStratum stratum);

  const DamageSpec& spec_;
  NativeReader& reader_;
  StudyJournal& journal_;
  campaign::Progress& progress_;
  std::filesystem::path work_;
  bool read_original_;
};

/// The stored bytes of the largest tensor with a nonzero byte, for the canary `zeroed`. Throws
/// Error(unsupported) when there is none.
[[nodiscard]] std::vector<BitExtent> extents_to_zero(const StudyFile& file);

}  // namespace bitrift::study
