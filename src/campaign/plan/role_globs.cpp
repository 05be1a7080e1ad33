#include "campaign/plan/role_globs.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/glob.h"

namespace bitrift::campaign {
namespace {

bool selects(const std::string& glob, const ckpt::Reader& base, const std::vector<std::string>& roles) {
  const auto wanted = [&](const ckpt::TensorInfo& tensor) {
    return std::find(roles.begin(), roles.end(), tensor.role) != roles.end() &&
           glob_selects(glob, tensor.path, tensor.holder, tensor.attribute);
  };
  if (std::any_of(base.tensors().begin(), base.tensors().end(), wanted)) return true;
  if (glob.find('@') == glob.npos) return false;
  const auto& attributes = base.attribute_tensors();
  return std::any_of(attributes.begin(), attributes.end(), wanted);
}

}  // namespace

void check_globs(const record::StrataSpec& strata, const ckpt::Reader& base) {
  for (const std::string& glob : strata.tensors) {
    if (selects(glob, base, strata.roles)) continue;
    fail(
        ErrorCode::not_found,
        "strata.tensors: {}: no tensor of role {} matches '{}' (* matches within one name, ** also matches . "
        "and /; see bitrift ls); correct or remove it",
        base.path().string(), fmt::join(strata.roles, " or "), glob);
  }
}

std::vector<std::string> globs_of_role(const record::StrataSpec& strata, const ckpt::Reader& base,
                                       const std::string& role) {
  std::vector<std::string> globs;
  std::copy_if(strata.tensors.begin(), strata.tensors.end(), std::back_inserter(globs),
               [&](const std::string& glob) { return selects(glob, base, {role}); });
  if (globs.empty() && !strata.tensors.empty()) {
    fail(ErrorCode::not_found,
         "{}: no tensor of this role matches strata.tensors; remove the role, or add a glob",
         base.path().string());
  }
  return globs;
}

}  // namespace bitrift::campaign
