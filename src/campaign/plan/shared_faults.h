// Which faults two populations share.
#pragma once

#include <string>

#include "ckpt/reader.h"
#include "inject/draw/population.h"

namespace bitrift::campaign {

/// A fault runs in every arm, so it must exist in every base: same tensors, same number of bits an element.
/// whole: the fault sets elements, whatever their width. Throws Error(bad_input) that names the first tensor
/// that differs.
void refuse_other_bits(const inject::Population& first, const ckpt::Reader& first_base,
                       const inject::Population& other, const ckpt::Reader& other_base, bool whole = false);

/// A bit that both populations hold, in words; "" where there is none.
[[nodiscard]] std::string shared_bit(const inject::Population& first, const inject::Population& second);

}  // namespace bitrift::campaign
