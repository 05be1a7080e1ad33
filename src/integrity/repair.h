// Sets right the bits whose flipping explains why sums do not fit.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "inject/manifest/manifest.h"
#include "integrity/flip_search.h"
#include "integrity/verification.h"

namespace bitrift::integrity {

/// A damaged part, and what explains it.
struct ExplainedPart {
  std::optional<SumKind> kind;  ///< nullopt: the structure of the file
  std::string name;
  Explanation explanation;
};

/// What a search found in all damaged parts of a file.
struct RepairPlan {
  std::vector<ExplainedPart> parts;
  [[nodiscard]] bool complete() const;              ///< every part is explained
  [[nodiscard]] std::vector<FileBit> bits() const;  ///< all bits to flip, ascending
};

/// Explains each damaged part, or the structure of a zip archive whose directory is damaged. A tensor's
/// values are left out where chunks that hold them are damaged, too.
[[nodiscard]] RepairPlan plan_repair(const std::filesystem::path& file, const Verification& found);

/// Copies the file, flips the bits in the copy, and verifies it before it takes its name; see
/// inject::copy_altered(). Returns the flips as faults of `file`, whose replay gives the same copy: on the
/// plane storage if all of them are in values of tensors, otherwise on the plane metadata, as bytes of the
/// file. Throws Error(conflict), and writes nothing, if a sum of the copy does not fit.
[[nodiscard]] inject::Manifest write_repaired(const std::filesystem::path& file, const RepairPlan& plan,
                                              const std::filesystem::path& output);

}  // namespace bitrift::integrity
