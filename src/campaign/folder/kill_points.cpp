#include "campaign/folder/kill_points.h"

#include <optional>

#include "campaign/plan/process_population.h"
#include "campaign/worker/training_facts.h"
#include "core/error.h"

namespace bitrift::campaign {
namespace {

using record::Json;
using record::KillPoints;

// What the points follow from.
Json origin_of(const record::CampaignSpec& spec) {
  return {{"bases", record::to_json(spec.bases)}, {"parallel", to_json(spec.arms.front().parallel)}};
}

std::optional<KillPoints> stored_points(const record::CampaignSpec& spec, const Layout& layout) {
  const auto stored = same_origin(spec, layout);
  return stored && stored->strata.process ? stored->strata.process->points : std::nullopt;
}

}  // namespace

std::optional<record::CampaignSpec> same_origin(const record::CampaignSpec& spec, const Layout& layout) {
  if (!std::filesystem::exists(layout.identity())) return std::nullopt;
  record::CampaignSpec stored = read_stored_campaign(layout).spec;
  if (origin_of(stored) != origin_of(spec)) return std::nullopt;
  return stored;
}

Json described_part(const record::TrainingSpec& training, const record::Parallel& parallel,
                    const std::filesystem::path& source, const std::filesystem::path& trainer,
                    const DescribedPart& part) {
  const Description described = describe(training, parallel, trainer, true);
  if (!described.status || !described.status->ok()) {
    fail(ErrorCode::bad_input, "{}: base: bitrift-train describe ended with {}: {}", source.string(),
         described.status ? described.status->text() : "its deadline", described.said);
  }
  // Warnings may come before and behind the document.
  const auto begin = described.text.find('{');
  const auto end = described.text.rfind('}');
  Json document = begin == std::string::npos || end < begin
                      ? Json()
                      : Json::parse(described.text.substr(begin, end - begin + 1), nullptr, false);
  if (!document.is_object() || !document.contains(part.key)) {
    fail(ErrorCode::unsupported, "{}: {}; use the bitrift-train of this version", source.string(),
         fmt::format(fmt::runtime(part.missing), trainer.string()));
  }
  return document.at(part.key);
}

void find_kill_points(record::CampaignSpec& spec, const Layout& layout, const std::filesystem::path& source,
                      const std::filesystem::path& trainer) {
  if (!spec.strata.process) return;
  record::ProcessStrata& strata = *spec.strata.process;
  const record::Parallel& parallel = spec.arms.front().parallel;
  strata.points = stored_points(spec, layout);
  if (!strata.points) {
    for (const record::BaseSpec& base : spec.bases) {
      const KillPoints points = record::kill_points_from_json(
          described_part(training_of(base, source), parallel, source, trainer,
                         {"kill_points", "strata.process: {} does not say at which points a rank can fail"}));
      if (strata.points.value_or(points) != points) {
        fail(ErrorCode::bad_input,
             "{}: base: '{}' and '{}' differ in the points at which a rank can fail; use one campaign for "
             "each",
             source.string(), spec.bases.front().name, base.name);
      }
      strata.points = points;
    }
  }
  for (const record::TrainingPhase phase : strata.phases) {
    try {
      static_cast<void>(ProcessPopulation(phase, strata, parallel, spec.resume_epochs));
    } catch (const Error& error) {
      fail(error.code(), "{}: strata.process: phase {}: {}", source.string(), name_of(phase), error.what());
    }
  }
}

}  // namespace bitrift::campaign
