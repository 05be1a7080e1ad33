#include "integrity/seal_checkpoint.h"

#include <algorithm>

#include "core/error.h"
#include "integrity/verification.h"

namespace bitrift::integrity {
namespace {

void refuse_damaged(const std::filesystem::path& checkpoint) {
  try {
    if (verify_sums(checkpoint).sound()) return;
  } catch (const Error& error) {
    if (comes_from_another_kind(error)) return;  // other files can be sealed, too
    throw;
  }
  fail(ErrorCode::conflict,
       "{}: is damaged already, says `bitrift verify`: repair it, or seal it as it is with --unchecked",
       checkpoint.string());
}

}  // namespace

MadeSeal seal(const std::filesystem::path& checkpoint, const SealOptions& options, bool unchecked) {
  if (!unchecked) refuse_damaged(checkpoint);
  return make_seal(checkpoint, options);
}

record::Json to_json(const MadeSeal& made) {
  const SealShape& shape = made.head.shape;
  return {{"seal", made.file.string()},
          {"seal_bytes", made.bytes},
          {"bytes", shape.bytes},
          {"files", std::max<std::size_t>(made.head.files.parts.size(), 1)},
          {"blocks", shape.blocks()},
          {"block_bytes", seal_block_bytes},
          {"stripes", shape.stripes()},
          {"data_rows", shape.data_rows},
          {"parity_rows", shape.parity_rows}};
}

}  // namespace bitrift::integrity
