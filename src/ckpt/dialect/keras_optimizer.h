// The variables of a Keras 3 optimizer, which have numbers instead of names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

namespace bitrift::ckpt {

using Shape = std::vector<std::uint64_t>;

/// The number of variables of each shape in the layers of a model.
using ShapeCounts = std::map<Shape, std::size_t>;

/// The role of each variable of an optimizer, in the order in which Keras makes them
/// (keras/src/optimizers/*.py, `build`): iteration, learning rate, then slots, some of which depend on
/// `use_ema`, `gradient_accumulation_steps` and the optimizer's own options. The file has none of these
/// options, so all ways to make variables of these shapes are tried, and a role is given only where all of
/// them agree. `name`: the class in snake case, in lower case and without a number. `model`: the variables to
/// which the slots belong; empty: not in the file.
[[nodiscard]] std::vector<std::string_view> keras_optimizer_roles(std::string_view name,
                                                                  const std::vector<Shape>& variables,
                                                                  const ShapeCounts& model);

}  // namespace bitrift::ckpt
