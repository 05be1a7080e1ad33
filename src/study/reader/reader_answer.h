// What a native reader answered, and what that means for a damaged file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "core/process/subprocess.h"
#include "study/row/study_kinds.h"
#include "study/row/study_row.h"

namespace bitrift::study {

/// The reader raised an error.
struct ReaderRefused {
  std::string message;  ///< type and first line
};
/// It returned tensors.
struct ReaderContents {
  std::map<std::string, std::string> digests;  ///< by name
  /// The only element that differs from the base, if requested; absent: no element, or more than one.
  std::optional<ValueChange> change = {};
};
/// Its process ended.
struct ReaderDied {
  ExitStatus status;
};
/// The reader did not answer in time, and its process was killed.
struct ReaderHung {};

using ReaderAnswer = std::variant<ReaderRefused, ReaderContents, ReaderDied, ReaderHung>;

/// The outcome of a read, and a line about it.
struct Judged {
  DamageOutcome outcome;
  std::string message;
  std::uint64_t missing = 0;  ///< see DamageResult
};

/// expected: the digests of the saved tensors.
[[nodiscard]] Judged judge(const ReaderAnswer& answer, const std::map<std::string, std::string>& expected);

}  // namespace bitrift::study
