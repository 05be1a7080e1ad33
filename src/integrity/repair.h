// Puts damage right: blocks by the parity of a seal, or bits whose flipping explains why sums do not fit.
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

/// How the damage of a checkpoint can be repaired.
struct RepairPlan {
  bool sound = false;     ///< there is no damage
  std::string structure;  ///< damage of the structure that no flip was looked for in; "" if there is none
  std::vector<ExplainedPart> parts;
  std::optional<SealCheck>
      seal;  ///< whose parity gives back every damaged block; then no flips are looked for
  bool differs_from_seal = false;       ///< which cannot repair it
  [[nodiscard]] bool complete() const;  ///< there is damage, and all of it is explained
  /// One line: what is not explained, and why; "" if the plan is complete, or the file sound.
  [[nodiscard]] std::string failure() const;
  [[nodiscard]] std::vector<FileBit> bits() const;  ///< all bits to flip, ascending
};

/// Takes the seal if it can repair everything. Otherwise explains each damaged part, or the structure of a
/// zip archive whose directory is damaged. A tensor's values are left out where chunks that hold them are
/// damaged, too.
[[nodiscard]] RepairPlan plan_repair(const std::filesystem::path& file, const Verification& found);

using KeepManifest = std::function<void(inject::Manifest& manifest)>;

/// Copies the file or folder, puts the damage right in the copy, and checks it, sums or seal, before it takes
/// its name; see inject::copy_altered(). Before that, `keep` gets the flips as faults of `file`, whose replay
/// gives the same copy (manifest_of()). Where a manifest cannot say what was altered, as by a seal more than
/// 65,536 bytes or the size of a file, `keep` is not called, and one line is returned that says why;
/// otherwise
/// "". Throws Error(conflict), and writes nothing, if the copy is not sound, and what `keep` throws.
std::string write_repaired(const std::filesystem::path& file, const RepairPlan& plan,
                           const std::filesystem::path& output, const KeepManifest& keep);

}  // namespace bitrift::integrity
