// Checks whether a file can take the faults of a manifest: the very base, or a file with the same tensors.
#pragma once

#include "inject/manifest/manifest.h"

namespace bitrift::inject {

/// What a file must have in common with the base from which faults were drawn.
enum class SameBase {
  bytes,    ///< every byte: the same digest
  tensors,  ///< by name: the tensors with shape and number format, and the old values, stored in any way
  values,   ///< forced: the old value at every fault, read as the format that the fault was drawn for
};

/// Checks that a manifest fits a file, and in any case the old pattern at every fault. A compact one is drawn
/// again, and must give exactly the faults of its digest. With SameBase::tensors and ::values the manifest's
/// tensors become those of this file. Throws Error(conflict) with the first difference: of the tensors, then
/// of the values, then of the file (if the base still exists, how it differs); Error(bad_input) if a compact
/// manifest is forced, and if bytes of the planes storage and metadata are to be found by name.
void check_replay(const ckpt::Reader& reader, Manifest& manifest, SameBase same);

}  // namespace bitrift::inject
