#include "campaign/folder/messages.h"

#include <optional>

#include "campaign/folder/kill_points.h"
#include "campaign/plan/link_population.h"
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

MessageMap described_messages(const record::CampaignSpec& spec, const record::BaseSpec& base,
                              const std::filesystem::path& source, const std::filesystem::path& trainer) {
  return record::message_map_from_json(
      described_part(training_of(base, source), spec.arms.front().parallel, source, trainer,
                     {"messages", "strata: {} does not say which messages it sends"}));
}

void find_steps(record::CampaignSpec& spec, const Layout& layout, const std::filesystem::path& source,
                const std::filesystem::path& trainer) {
  record::LinkStrata& strata = *spec.strata.link;
  const auto stored = same_origin(spec, layout);
  if (stored && stored->strata.link) strata.steps_per_epoch = stored->strata.link->steps_per_epoch;
  if (!strata.steps_per_epoch) {
    for (const record::BaseSpec& base : spec.bases) {
      const std::int64_t steps = described_messages(spec, base, source, trainer).steps_per_epoch;
      if (strata.steps_per_epoch.value_or(steps) != steps) {
        fail(ErrorCode::bad_input,
             "{}: base: '{}' and '{}' differ in the steps of an epoch; use one campaign for each",
             source.string(), spec.bases.front().name, base.name);
      }
      strata.steps_per_epoch = steps;
    }
  }
  for (const record::LinkFailure kind : strata.kinds) {
    try {
      static_cast<void>(
          LinkPopulation(kind, strata, spec.arms.front().parallel.mesh.value(), spec.resume_epochs));
    } catch (const Error& error) {
      fail(error.code(), "{}: strata.link: {} links: {}", source.string(), name_of(kind), error.what());
    }
  }
}

}  // namespace

void find_messages(record::CampaignSpec& spec, const Layout& layout, const std::filesystem::path& source,
                   const std::filesystem::path& trainer) {
  if (spec.strata.link) return find_steps(spec, layout, source, trainer);
  if (!spec.strata.wire) return;
  record::WireStrata& strata = *spec.strata.wire;
  strata.messages = stored_messages(spec, layout);
  if (!strata.messages) {
    for (const record::BaseSpec& base : spec.bases) {
      const MessageMap map = described_messages(spec, base, source, trainer);
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
