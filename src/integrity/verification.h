// Whether the sums that a checkpoint carries fit its bytes, and which tensors they protect.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ckpt/container/container.h"
#include "core/named_enum.h"
#include "integrity/summed_part.h"
#include "record/json/json.h"

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

struct Verification {
  ckpt::FileFormat format = ckpt::FileFormat::hdf5;
  std::uint64_t bytes = 0;  ///< of the file, or of all files of a set
  bool several = false;     ///< it is a set of files, whose parts are named "FILE: PART"
  std::vector<SummedPart> parts;
  std::vector<VerifiedTensor> tensors;  ///< without aliases and stored checksums, by path
  std::string damage;  ///< why its tensors cannot be listed: its structure is damaged; "" if it is not

  [[nodiscard]] bool sound() const;
};

/// Checks every sum of a file, on all cores, and reads nothing else of it. Damage is a part of the result.
/// Throws Error(not_found | io | busy | unsupported), Error(bad_file) if it is not a checkpoint at all.
[[nodiscard]] Verification verify(const std::filesystem::path& file);

/// The JSON that `bitrift verify --json` prints (docs/repair.md), without the name of the file.
[[nodiscard]] record::Json to_json(const Verification& found);

}  // namespace bitrift::integrity
