// Sets right the bits whose flipping explains why sums do not fit.
#pragma once

#include <filesystem>
#include <functional>
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

/// What explains the damage of a file.
struct RepairPlan {
  bool sound = false;     ///< there is no damage
  std::string structure;  ///< damage of the structure that no flip was looked for in; "" if there is none
  std::vector<ExplainedPart> parts;
  [[nodiscard]] bool complete() const;  ///< there is damage, and all of it is explained
  /// One line: what is not explained, and why; "" if the plan is complete, or the file sound.
  [[nodiscard]] std::string failure() const;
  [[nodiscard]] std::vector<FileBit> bits() const;  ///< all bits to flip, ascending
};

/// Explains each damaged part, or the structure of a zip archive whose directory is damaged. A tensor's
/// values are left out where chunks that hold them are damaged, too.
[[nodiscard]] RepairPlan plan_repair(const std::filesystem::path& file, const Verification& found);

/// Copies the file, flips the bits in the copy, and verifies it before it takes its name; see
/// inject::copy_altered(). Before that, `keep` gets the flips as faults of `file`, whose replay gives the
/// same copy: on the plane storage if all of them are in values of tensors, otherwise on the plane metadata,
/// as bytes of the file. Throws Error(conflict), and writes nothing, if a sum of the copy does not fit, and
/// what `keep` throws.
void write_repaired(const std::filesystem::path& file, const RepairPlan& plan,
                    const std::filesystem::path& output,
                    const std::function<void(inject::Manifest& manifest)>& keep);

}  // namespace bitrift::integrity
