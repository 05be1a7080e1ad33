// A result of a study of checkpoints, as its file of rows keeps it (docs/checkpoint-cost.md, "Rows").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "record/json/json.h"
#include "study/row/study_kinds.h"

namespace bitrift::study {

/// A bit of a file, and what it belongs to.
struct BitFault {
  std::string file;  ///< of a folder: the file in it; "" otherwise
  std::uint64_t byte = 0;
  int bit = 0;
  std::string structure;  ///< "central directory"; of payload the tensor
  bool operator==(const BitFault&) const = default;
};

/// One read of a damaged file, or of a canary.
struct DamageResult {
  std::optional<DamageCanary> canary = {};
  BitStratum stratum = BitStratum::payload;  ///< of flips
  std::uint64_t draw = 0;                    ///< of flips
  std::optional<BitFault> fault = {};        ///< of flips
  DamageOutcome outcome = DamageOutcome::same;
  std::string message = {};  ///< of the reader; silently wrong: which tensors
  bool operator==(const DamageResult&) const = default;
};

struct SizeResult {
  std::uint64_t bytes = 0;          ///< of the file, or of all files of the folder
  std::uint64_t payload_bytes = 0;  ///< of these, what holds the values of the state's tensors
  std::uint64_t tensor_bytes = 0;   ///< of the values in memory
  std::uint64_t parameters = 0;     ///< that the model trains
  bool operator==(const SizeResult&) const = default;
};

/// Two saves of one state in two processes, seconds apart, under two names.
struct DeterminismResult {
  bool equal = false;
  std::uint64_t first_bytes = 0, second_bytes = 0;  ///< sizes
  std::uint64_t differing_bytes = 0;                ///< at places that both have
  std::optional<BitFault> first_difference = {};    ///< bit: unused
  bool operator==(const DeterminismResult&) const = default;
};

struct StudyRow {
  Format format = Format::hdf5;
  FileWriter writer = FileWriter::native;
  std::variant<SizeResult, DeterminismResult, DamageResult> result = {};

  [[nodiscard]] StudyPart part() const noexcept { return static_cast<StudyPart>(result.index()); }
  /// Names the row within its study: "damage/npz/native/metadata/17".
  [[nodiscard]] std::string id() const;
  bool operator==(const StudyRow&) const = default;
};

[[nodiscard]] record::Json to_json(const StudyRow& row);
/// Throws Error(bad_file) and record::Json::exception for anything else.
[[nodiscard]] StudyRow study_row_from_json(const record::Json& value);

/// The id of a row that is to be.
[[nodiscard]] std::string row_id(StudyPart part, const FileKind& kind);
[[nodiscard]] std::string canary_id(const FileKind& kind, DamageCanary canary);
[[nodiscard]] std::string flip_id(const FileKind& kind, BitStratum stratum, std::uint64_t draw);

}  // namespace bitrift::study
