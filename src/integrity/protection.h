// Which tensors of a checkpoint its sums and its seal protect.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/reader.h"
#include "core/named_enum.h"
#include "integrity/seal/seal_check.h"
#include "integrity/summed_part.h"

namespace bitrift::integrity {

enum class TensorState {
  sound,        ///< every sum over its bytes fits
  damaged,      ///< one does not
  unprotected,  ///< no sum covers all of its bytes
  unreadable,   ///< its bytes cannot be found
};
constexpr EnumNames<4> names_of(TensorState) {
  return {"state of a tensor", {"sound", "damaged", "unprotected", "unreadable"}};
}

struct VerifiedTensor {
  std::string path, role;
  std::uint64_t bytes = 0;  ///< stored
  TensorState state = TensorState::unprotected;
  std::vector<SumKind> sums;  ///< ascending
  std::string reason;         ///< unreadable: why
};

/// All tensors, without aliases and stored checksums, by path.
[[nodiscard]] std::vector<VerifiedTensor> protected_tensors(const ckpt::Reader& reader,
                                                            const std::vector<SummedPart>& parts,
                                                            const std::optional<SealCheck>& seal);

}  // namespace bitrift::integrity
