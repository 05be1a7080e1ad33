// Bytes that a repair alters, and the manifest that lists them as faults.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "inject/manifest/manifest.h"
#include "integrity/explanation.h"

namespace bitrift::integrity {

/// The value of a byte before and after a repair.
struct AlteredByte {
  std::uint8_t before = 0, after = 0;
};
/// By offset; counted through all files of a set.
using AlteredBytes = std::map<std::uint64_t, AlteredByte>;

/// The bytes that flips alter. Throws Error(io).
[[nodiscard]] AlteredBytes altered_by(const std::vector<FileBit>& bits, const std::filesystem::path& file);

/// The flips as faults of `damaged`, whose replay gives the repaired file: on the plane storage if all of
/// them are in values of tensors, and few, otherwise on the plane metadata, as bytes of the file. `repaired`
/// can be read in any case, and names them. Throws as ckpt::Reader does.
[[nodiscard]] inject::Manifest manifest_of(const AlteredBytes& bytes, const std::filesystem::path& damaged,
                                           const std::filesystem::path& repaired);

}  // namespace bitrift::integrity
