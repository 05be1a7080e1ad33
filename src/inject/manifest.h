// The fault manifest: what was changed, drawn from what, enough to do it again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "inject/plan.h"
#include "record/fault.h"
#include "record/json.h"

namespace bitrift::inject {

struct Manifest {
  std::string base_digest;  ///< digest_file of the unaltered file
  record::FaultModel model;
  Plan plan;
};

[[nodiscard]] record::Json to_json(const Manifest& manifest);
/// Throws Error(not_found | bad_file) with file, line and key.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& path);
/// Checks that a manifest fits a file: same digest (unless forced) and, always, the old pattern at every
/// fault. Throws Error(conflict) with the first difference.
void check_replay(const ckpt::Reader& reader, const Manifest& manifest, bool force);

}  // namespace bitrift::inject
