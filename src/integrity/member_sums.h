// The sums of a zip archive's members.
#pragma once

#include <filesystem>
#include <vector>

#include "archive/zip_directory.h"
#include "integrity/summed_part.h"

namespace bitrift::integrity {

/// Checks the CRC-32 of every member whose bytes can be read, on all cores; members without a sum are left
/// out. Throws Error(not_found | io), also if memory is short.
[[nodiscard]] std::vector<SummedPart> check_members(const archive::ZipDirectory& directory,
                                                    const std::filesystem::path& file);

}  // namespace bitrift::integrity
