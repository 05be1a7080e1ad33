// Finds the format of a file.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "archive/bounded_file.h"
#include "ckpt/container/container.h"

namespace bitrift::ckpt {

/// Opens a file in the format that its first bytes indicate, and as HDF5 if they indicate none. The name of
/// the file does not matter. A shared lock, as HDF5 takes it, keeps writers out while the file is open.
/// Throws Error(not_found | bad_file | busy | unsupported | io).
[[nodiscard]] std::unique_ptr<Container> open_container(const std::filesystem::path& path);

/// The same of a zip archive that is open already, without a lock.
[[nodiscard]] std::unique_ptr<Container> open_archive(std::unique_ptr<const archive::BoundedFile> file);

/// "a zip archive" or "a safetensors file" if the first bytes of the file indicate that; "" for all others,
/// and if it cannot be read.
[[nodiscard]] std::string other_than_hdf5(const std::filesystem::path& path);

/// Whether a file begins like one of the formats, or has HDF5's signature where HDF5 looks for it.
[[nodiscard]] bool has_known_signature(const std::filesystem::path& path);

}  // namespace bitrift::ckpt
