// Which format a file has.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "ckpt/container/container.h"

namespace bitrift::ckpt {

/// Opens a file as what its first bytes say that it is, and as HDF5 where they say nothing: names decide
/// nothing. A shared lock, as HDF5 takes it, keeps writers out meanwhile. Throws Error(not_found | bad_file |
/// busy | unsupported | io).
[[nodiscard]] std::unique_ptr<Container> open_container(const std::filesystem::path& path);

/// "a zip archive" or "a safetensors file" where the first bytes of a file say so; "" for all others, and for
/// what cannot be read.
[[nodiscard]] std::string other_than_hdf5(const std::filesystem::path& path);

}  // namespace bitrift::ckpt
