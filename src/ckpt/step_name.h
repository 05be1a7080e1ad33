// Names of the checkpoints of one training in a folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace bitrift::ckpt {

/// "step-0000000120.h5": names sort by step (progress/step).
[[nodiscard]] std::string checkpoint_name(std::int64_t step);
/// The step of such a name; nullopt for any other name.
[[nodiscard]] std::optional<std::int64_t> step_of_name(std::string_view name);

}  // namespace bitrift::ckpt
