// The sums of a zip archive's members.
#pragma once

#include <filesystem>
#include <vector>

#include "archive/zip_directory.h"
#include "integrity/summed_part.h"

namespace bitrift::integrity {

/// Checks the CRC-32 of every member whose bytes can be read, on all cores; members without a sum are left
/// out. `first`: where the archive begins in the file; the places of the parts are counted from there. Throws
/// Error(not_found | io), also if memory is short.
[[nodiscard]] std::vector<SummedPart> check_members(const archive::ZipDirectory& directory,
                                                    const std::filesystem::path& file,
                                                    std::uint64_t first = 0);

}  // namespace bitrift::integrity
