// Whether the sums that a checkpoint carries, and its seal, fit its bytes, and which tensors they protect.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/container/container.h"
#include "core/error.h"
#include "integrity/protection.h"
#include "integrity/seal/seal_check.h"
#include "integrity/summed_part.h"

namespace bitrift::integrity {

struct Verification {
  std::optional<ckpt::FileFormat> format;  ///< nullopt: damaged too much, or not a checkpoint
  std::uint64_t bytes = 0;                 ///< of the file, or of all files of a set
  bool several = false;                    ///< it is a set of files, whose parts are named "FILE: PART"
  std::vector<SummedPart> parts;
  std::vector<VerifiedTensor> tensors;  ///< without aliases and stored checksums, by path
  std::string damage;  ///< why its tensors cannot be listed: its structure is damaged; "" if it is not
  std::string
      other;  ///< why a sealed file that is as it was sealed has no tensors: it is not a checkpoint; or ""
  std::optional<SealCheck> seal;  ///< if it has one

  [[nodiscard]] bool sound() const;
};

/// Checks every sum of a file, and every block if it has a seal, on all cores. Damage is a part of the
/// result. Throws Error(not_found | io | busy | unsupported), Error(bad_file) if it is neither a checkpoint
/// nor sealed.
[[nodiscard]] Verification verify(const std::filesystem::path& file);
/// The same without a look at the seal.
[[nodiscard]] Verification verify_sums(const std::filesystem::path& file);

/// Whether an error of these comes from a file or folder that is not a checkpoint, or one of an unknown kind.
[[nodiscard]] bool comes_from_another_kind(const Error& error);

}  // namespace bitrift::integrity
