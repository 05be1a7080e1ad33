// Opens a checkpoint, in one file or in several.
#pragma once

#include <filesystem>
#include <memory>

#include "ckpt/container/container.h"

namespace bitrift::ckpt {

/// Opens a set of files (find_file_set()), or a single file (open_container()). Throws as these do.
[[nodiscard]] std::unique_ptr<Container> open_checkpoint(const std::filesystem::path& path);

}  // namespace bitrift::ckpt
