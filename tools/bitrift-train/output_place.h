// Where a run writes its checkpoints: -o FILE or -o DIR.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "core/file.h"
#include "spec/checkpoint_policy.h"

namespace bitrift::cli {

/// One file that each checkpoint replaces, or a folder with one file for each of the last checkpoints.
class OutputPlace {
 public:
  /// Nothing is saved.
  OutputPlace() = default;
  /// named: a folder where one of that name exists or it ends with '/'; "": nothing is saved. Throws
  /// Error(bad_input) for a policy that does not fit.
  OutputPlace(const std::filesystem::path& named, const record::CheckpointPolicy& policy);

  [[nodiscard]] bool is_folder() const noexcept { return folder_; }
  /// The checkpoint of a step (progress/step).
  [[nodiscard]] std::filesystem::path file(std::int64_t step) const;
  /// How many of the last checkpoints are there.
  [[nodiscard]] int keep() const noexcept { return keep_; }

  /// Throws Error(bad_input) where something else than a regular file has the name of one that may be
  /// written.
  void check_names() const;
  /// Shows that files can be written there, if `shared` by several processes at once. Makes the folder, and
  /// removes what killed programs left there. Throws Error(bad_input | io | unsupported).
  void prepare(bool shared) const;
  /// Locks the folder, which exists, for as long as the descriptor is open; none for a file, and where the
  /// file system has no locks. patient: a run that was killed a moment ago may not be over. Throws
  /// Error(busy) where another run has it.
  [[nodiscard]] FileDescriptor hold(bool patient) const;
  /// Throws Error(bad_input) where the folder has checkpoints that `resume` would take for newer ones of this
  /// run. start: step that the run begins with; absent: a new training.
  void check_contents(std::optional<std::int64_t> start) const;
  /// The checkpoint of this step is complete: older ones go.
  void completed(std::int64_t step) const noexcept;

 private:
  std::filesystem::path named_;
  bool folder_ = false;
  int keep_ = 1;
};

/// Whether -o or the input means a folder.
[[nodiscard]] bool names_folder(const std::filesystem::path& path);

}  // namespace bitrift::cli
