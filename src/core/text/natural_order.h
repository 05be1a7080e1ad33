// Sorts names with numbers in natural order.
#pragma once

#include <string_view>

namespace bitrift {

/// Whether `first` comes before `second` when runs of digits compare as numbers: "layer2" before "layer10".
/// A total order: names that differ only in leading zeros compare bytewise.
[[nodiscard]] bool natural_less(std::string_view first, std::string_view second);

}  // namespace bitrift
