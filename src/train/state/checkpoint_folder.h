// A folder with the checkpoints of one training: their names, the newest valid one, and which of them to
// keep.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ckpt/step_name.h"

namespace bitrift::train {

using ckpt::checkpoint_name;
using ckpt::step_of_name;

struct FolderCheckpoint {
  std::filesystem::path path;
  std::int64_t step = 0;  ///< according to its name
};

/// The checkpoints of a folder by name, newest (highest step) first. Throws Error(not_found | io).
[[nodiscard]] std::vector<FolderCheckpoint> checkpoints_in(const std::filesystem::path& folder);

/// Throws Error(bad_input) that names the entry under the name of a checkpoint or of its provenance that is
/// not a regular file: a save would not replace it. Does nothing if the folder does not exist.
void check_names(const std::filesystem::path& folder);

/// How much of a checkpoint is checked.
enum class Look {
  header,    ///< that it opens, belongs to bitrift and has the step in its name
  contents,  ///< also that every tensor matches its stored checksum; reads the whole file
};

struct Newest {
  FolderCheckpoint checkpoint;
  std::vector<std::string> skipped;  ///< newer ones, each in one line that says what is wrong with it
};

/// The valid checkpoint of the highest step. Throws Error(bad_file), which names the skipped ones, if none is
/// valid, Error(io) if one may not be read before a valid one is found, and as checkpoints_in().
[[nodiscard]] Newest newest_valid(const std::filesystem::path& folder, Look look);

/// Removes checkpoints, and their provenance files, of all but the `keep` highest steps up to `step` whose
/// file is complete. Higher steps are kept, and files among the kept ones that do not open are not counted.
/// Files that cannot be removed are logged.
void remove_older(const std::filesystem::path& folder, std::int64_t step, int keep) noexcept;

/// Removes the remains of killed programs that were writing or removing checkpoints there: temporary files,
/// and provenance files without a checkpoint.
void remove_unfinished(const std::filesystem::path& folder);

}  // namespace bitrift::train
