// What a tensor is for, told from its path.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace bitrift::ckpt {

/// Role of a tensor in a checkpoint of ours (docs/checkpoint-format.md): weight, bias, norm, running_stat,
/// momentum, exp_avg, exp_avg_sq, step, rng, progress, checksum, or unknown. `paths` are all paths of the
/// file: a layer that has a running_mean is a normalisation layer, so its weight and bias have the role
/// `norm`. What stands under replica/<r>/ has the role of the same tensor of replica 0.
[[nodiscard]] std::string role_of(std::string_view path, const std::set<std::string, std::less<>>& paths);

/// Every role name, for messages and the schema.
[[nodiscard]] const std::vector<std::string>& role_names();

}  // namespace bitrift::ckpt
