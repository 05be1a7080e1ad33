// Finds the format of a file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "ckpt/container/container.h"

namespace bitrift::ckpt {

/// Opens a file in the format that its first bytes indicate, and as HDF5 if they indicate none. The name of
/// the file does not matter. A shared lock, as HDF5 takes it, keeps writers out while the file is open.
/// Throws Error(not_found | bad_file | busy | unsupported | io).
[[nodiscard]] std::unique_ptr<Container> open_container(const std::filesystem::path& path);

/// "a zip archive" or "a safetensors file" if the first bytes of the file indicate that; "" for all others,
/// and if it cannot be read.
[[nodiscard]] std::string other_than_hdf5(const std::filesystem::path& path);

}  // namespace bitrift::ckpt
