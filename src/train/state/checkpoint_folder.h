// A folder with the checkpoints of one training: their names, the newest valid one, and which of them stay.
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
  std::int64_t step = 0;  ///< as its name says
};

/// The checkpoints of a folder by name, newest (highest step) first. Throws Error(not_found | io).
[[nodiscard]] std::vector<FolderCheckpoint> checkpoints_in(const std::filesystem::path& folder);

/// Throws Error(bad_input) that names what is there under the name of a checkpoint or of the provenance
/// beside one, but is not a regular file: a save would not replace it. Nothing happens where the folder does
/// not exist.
void check_names(const std::filesystem::path& folder);

/// How much of a checkpoint is looked at.
enum class Look {
  header,    ///< that it opens, is bitrift's and of the step that its name says
  contents,  ///< also that every tensor matches its stored checksum; reads the whole file
};

struct Newest {
  FolderCheckpoint checkpoint;
  std::vector<std::string> skipped;  ///< newer ones, each in one line that says what is wrong with it
};

/// The valid checkpoint of the highest step. Throws Error(bad_file), which names what was skipped, where none
/// is valid, Error(io) where one may not be read before a valid one is found, and as checkpoints_in().
[[nodiscard]] Newest newest_valid(const std::filesystem::path& folder, Look look);

/// Removes checkpoints, and the provenance files beside them, of all but the `keep` highest steps up to
/// `step`, whose file is complete. Higher steps stay, and files among the kept ones that do not open are not
/// counted. What cannot be removed is logged.
void remove_older(const std::filesystem::path& folder, std::int64_t step, int keep) noexcept;

/// Removes what killed programs left of checkpoints that they were writing or removing there: temporary
/// files, and provenance files without a checkpoint.
void remove_unfinished(const std::filesystem::path& folder);

}  // namespace bitrift::train
