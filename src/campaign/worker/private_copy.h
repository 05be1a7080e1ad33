// A worker's own copy of the base checkpoint: altered before a run, restored after it.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "campaign/worker/file_stamp.h"
#include "core/file_run.h"
#include "inject/write/patch.h"
#include "record/trial.h"

namespace bitrift::campaign {

/// One file is reused for many runs. The base itself is only ever read. The copy of a base in several files
/// is a folder of links to the base, in which a file that a run alters becomes a copy. It stays one for later
/// runs, unless something else wrote to it.
class PrivateCopy {
 public:
  /// Copies the base to `path`, whose extension becomes that of the base, over whatever a killed driver left
  /// there. `base` must outlive the copy. shared: readers are on other machines, so every change is synced
  /// before it counts as made. Throws Error(io).
  PrivateCopy(const ckpt::Reader& base, std::filesystem::path path, bool shared = false);
  ~PrivateCopy();  ///< removes the file, and what runs left next to it
  PrivateCopy(PrivateCopy&&) = delete;
  PrivateCopy& operator=(PrivateCopy&&) = delete;

  /// Writes the run's faults and reads them back, in O(bits); returns their altered_tensors(). Throws
  /// Error(conflict) when the file does not hold the expected bytes, Error(io).
  std::vector<std::string> alter(const record::TrialSpec& run);
  /// Undoes the last alter() and verifies that.
  void restore();
  /// Copies the base again: a worker that died may have changed the file.
  void renew();
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// The tensors that hold the elements of these, which may be aliases; sorted, each once.
  [[nodiscard]] std::vector<std::string> primaries(const std::vector<std::string>& tensors) const;
  /// The files that a run writes next to the copy: "saved" and "saved.json" (its last checkpoint), "ledgers"
  /// (a folder), "deaths" (see record::DeathNote).
  [[nodiscard]] std::filesystem::path beside(std::string_view what) const;
  /// Removes all of these.
  void forget_runs() const noexcept;

 private:
  // For the parts of a base in several files.
  void copy_parts(const std::set<std::size_t>& parts);
  void link_parts(const std::set<std::size_t>& parts);
  [[nodiscard]] bool is_as_written(std::size_t part) const;
  void drop_foreign_copies();
  void note_written(const std::set<std::size_t>& parts);

  const ckpt::Reader& base_;
  std::filesystem::path path_;
  bool shared_;
  std::optional<FileRun> file_;
  inject::Patch patch_;
  std::set<std::size_t> parts_;              // those that patch_ alters
  std::map<std::size_t, FileStamp> copies_;  // the parts that are copies, when they were last written here
};

/// The tensors that these faults alter, sorted, each once; a fault that sets an existing value alters none.
[[nodiscard]] std::vector<std::string> altered_tensors(const record::FaultList& faults);

}  // namespace bitrift::campaign
