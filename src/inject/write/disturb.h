// Alters all elements of tensors, to find out whether a program reads them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ckpt/reader.h"

namespace bitrift::inject {

/// Alters every element of these tensors in `copy`, a copy of the reader's file that nobody else has open:
/// the lowest bit and, in floating formats, the sign and the lowest bit of the exponent, so that it differs
/// whatever type it is loaded as. The sums of an archive follow. Throws Error(not_found | unsupported) that
/// names a tensor, Error(io | bad_file).
void disturb(const ckpt::Reader& reader, const std::filesystem::path& copy,
             const std::vector<std::string>& tensors);

}  // namespace bitrift::inject
