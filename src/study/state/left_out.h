// Checkpoints from which a piece of the state was left out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ckpt/reader.h"

namespace bitrift::study {

/// No piece: the whole state is present.
inline constexpr const char* nothing_left_out = "nothing";
/// The parameters, without which no training continues: this shows that differences are noticed.
inline constexpr const char* all_parameters = "parameters";

/// Pieces of a checkpoint's state by name, each with its tensors: `parameters`, `running_stat`,
/// `optimizer/SLOT`, and each tensor below rng/ and progress/. The sums of the current epoch belong to
/// `progress/cursor`, without which they have no meaning.
[[nodiscard]] std::map<std::string, std::vector<std::string>> state_pieces(const ckpt::Reader& reader);

/// Copies `base`, a contiguous HDF5 checkpoint, to `path` with the values of a program that does not save
/// these tensors: those of `fresh`, a checkpoint of the same training before its first step; zero where it
/// has none, such as momentum; and another seed of random numbers. Returns how many of the tensors have
/// changed. Throws Error(io), and Error(bad_file) where a tensor is not contiguous.
std::uint64_t leave_out(const std::vector<std::string>& tensors, const std::filesystem::path& base,
                        const std::filesystem::path& fresh, const std::filesystem::path& path);

}  // namespace bitrift::study
