// A manifest as a document and as text, and the digest of its faults.
#pragma once

#include <string>

#include "inject/manifest/manifest.h"
#include "record/json/json.h"

namespace bitrift::inject {

/// XXH3-128 of the faults: for each a line "TENSOR\tELEMENT\tBITS\tOLD\tNEW\n", numbers in lower-case
/// hexadecimal without 0x.
[[nodiscard]] std::string faults_digest(const record::FaultList& list);

/// "bitrift/fault-manifest/3" (campaigns/schema/fault-manifest.schema.json).
[[nodiscard]] record::Json to_json(const Manifest& manifest);
/// The same document as text, one line a fault, without a document of all faults in memory. Throws
/// Error(unsupported) when a tensor's name is not UTF-8.
[[nodiscard]] std::string manifest_text(const Manifest& manifest);

}  // namespace bitrift::inject
