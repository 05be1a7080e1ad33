// Seals a checkpoint that is sound.
#pragma once

#include <filesystem>

#include "integrity/seal/make_seal.h"
#include "record/json/json.h"

namespace bitrift::integrity {

/// As make_seal(), for any file or folder. If its sums show damage, which a seal would keep, throws
/// Error(conflict), unless `unchecked`. For what was written just now, a check is a waste of time.
MadeSeal seal(const std::filesystem::path& checkpoint, const SealOptions& options, bool unchecked = false);

/// What `bitrift seal --json` prints (docs/seal.md).
[[nodiscard]] record::Json to_json(const MadeSeal& made);

}  // namespace bitrift::integrity
