// The part `determinism`.
#pragma once

#include <filesystem>

#include "study/part/file_bits.h"
#include "study/row/study_row.h"

namespace bitrift::study {

/// Compares two files, or two folders file by file. bits: of the first. Throws Error(not_found | io).
[[nodiscard]] DeterminismResult compare_saves(const std::filesystem::path& first,
                                              const std::filesystem::path& second, const FileBits& bits);

}  // namespace bitrift::study
