#include "campaign/folder/messages.h"

#include <optional>

#include "campaign/folder/kill_points.h"
#include "campaign/plan/message_population.h"
#include "campaign/worker/training_facts.h"
#include "core/error.h"

namespace bitrift::campaign {
namespace {

using record::MessageMap;

std::optional<MessageMap> stored_messages(const record::CampaignSpec& spec, const Layout& layout) {
  const auto stored = same_origin(spec, layout);
  return stored && stored->strata.wire ? stored->strata.wire->messages : std::nullopt;
}

}  // namespace

void find_messages(record::CampaignSpec& spec, const Layout& layout, const std::filesystem::path& source,
                   const std::filesystem::path& trainer) {
  if (!spec.strata.wire) return;
  record::WireStrata& strata = *spec.strata.wire;
  strata.messages = stored_messages(spec, layout);
  if (!strata.messages) {
    for (const record::BaseSpec& base : spec.bases) {
      const MessageMap map = record::message_map_from_json(
          described_part(training_of(base, source), spec.arms.front().parallel, source, trainer,
                         {"messages", "strata.wire: {} does not say which messages it sends"}));
      if (strata.messages.value_or(map) != map) {
        fail(ErrorCode::bad_input,
             "{}: base: '{}' and '{}' differ in the messages that are sent; use one campaign for each",
             source.string(), spec.bases.front().name, base.name);
      }
      strata.messages = map;
    }
  }
  for (const record::MessageKind kind : strata.kinds) {
    for (const std::string& field : strata.fields) {
      try {
        static_cast<void>(MessagePopulation(kind, field, strata, spec.resume_epochs));
      } catch (const Error& error) {
        fail(error.code(), "{}: strata.wire: {} messages, field {}: {}", source.string(), name_of(kind),
             field, error.what());
      }
    }
  }
}

}  // namespace bitrift::campaign
