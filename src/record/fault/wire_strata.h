// Which messages on the links of a mesh are to be altered: the strata of a campaign on the plane wire
// (docs/spec.md, "Links that alter messages").
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "record/fault/message_map.h"
#include "record/fault/process_strata.h"
#include "record/json/json.h"

namespace bitrift::record {

/// Each kind of message x bit field is a stratum.
struct WireStrata {
  std::vector<std::string> fields;  ///< as in StrataSpec
  std::vector<MessageKind> kinds = {MessageKind::add, MessageKind::copy};
  std::optional<StepRange> steps = {};      ///< in which messages are altered; absent: all of a run
  std::optional<MessageMap> messages = {};  ///< of the arms; known once the campaign has begun
};

/// Reads the value at /strata/wire of a document that obeys the schema. Throws Error(bad_input) with file,
/// line and key.
[[nodiscard]] WireStrata wire_strata_from(const Document& document);
[[nodiscard]] Json to_json(const WireStrata& strata);

}  // namespace bitrift::record
