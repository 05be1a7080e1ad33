#include "campaign/folder/fact.h"

#include <optional>
#include <vector>

#include "campaign/launch/script_answer.h"
#include "campaign/worker/training_facts.h"
#include "core/error.h"
#include "core/file.h"

namespace bitrift::campaign {
namespace {

using record::Json;

// The facts that the fact is derived from.
Json origin_of(const design::CampaignSpec& spec, const design::FactNeeded& needed) {
  Json origin = {{"bases", record::to_json(spec.bases)},
                 {"parallel", to_json(spec.arms.front().parallel)},
                 {"fact", needed.pointer}};
  if (spec.runner.kind == record::RunnerKind::train) return origin;
  origin["runner"] = to_json(spec.runner);
  for (const design::Arm& arm : spec.arms) origin["arms"].push_back({arm.words, spec.files[arm.file].base});
  return origin;
}

std::optional<Json> stored_fact(const design::CampaignSpec& spec, const Layout& layout,
                                const design::FactNeeded& needed) {
  if (!std::filesystem::exists(layout.identity())) return std::nullopt;
  const design::CampaignSpec stored = read_stored_campaign(layout).spec;
  const auto same = stored.strata->fact_needed();
  if (!same || origin_of(stored, *same) != origin_of(spec, needed)) return std::nullopt;
  return stored.strata->fact();
}

Json described_fact(const record::TrainingSpec& training, const record::Parallel& parallel,
                    const std::filesystem::path& source, const std::filesystem::path& trainer,
                    const design::FactNeeded& needed) {
  const Description described = describe(training, parallel, trainer);
  if (!described.status || !described.status->ok()) {
    fail(ErrorCode::bad_input, "{}: base: bitrift-train describe ended with {}: {}", source.string(),
         described.status ? described.status->text() : "its deadline", described.said);
  }
  const Json document = Json::parse(described.document, nullptr, false);
  if (document.is_object() && document.contains(needed.key)) return document.at(needed.key);
  fail(ErrorCode::unsupported, "{}: strata: {} does not say {}; use the bitrift-train of this version",
       source.string(), trainer.string(), needed.says);
}

// The strata with the fact of all bases or arms, which must agree. key: of these in the spec.
template <typename Items, typename FactOf>
design::Strata agreed(const design::CampaignSpec& spec, const std::filesystem::path& source, const char* key,
                      const Items& items, const design::FactNeeded& needed, const FactOf& fact_of) {
  std::optional<design::Strata> known;
  for (const auto& item : items) {
    design::Strata here = spec.strata->with_fact(fact_of(item));
    if (known && (*known)->fact() != here->fact()) {
      fail(ErrorCode::bad_input, "{}: {}: '{}' and '{}' differ in {}; use one campaign for each",
           source.string(), key, items.front().name, item.name, needed.what);
    }
    known = std::move(here);
  }
  return known.value();
}

// What the script of an arm shows.
Json shown_fact(const design::Arm& arm, const Launch& launch, const design::FactNeeded& needed) {
  const TemporaryFolder folder("bitrift-fact");
  const auto log = folder.path() / "log";
  const auto out = folder.path() / "answer.json";
  const auto [value, failed, ended] =
      ask_script(fact_command(launch, arm, needed.key, out, log), out, needed.key);
  if (value) return *value;
  fail(ErrorCode::bad_input, "arm '{}': the script does not show {}: {}", arm.name, needed.says,
       ended.empty() ? failed : fmt::format("{}; it printed: {}", ended, log_tail(log)));
}

}  // namespace

void find_fact(design::CampaignSpec& spec, const Layout& layout, const std::filesystem::path& source,
               const Launch& launch, const std::function<void(std::string)>& say) {
  const auto needed = spec.strata->fact_needed();
  if (!needed) return;
  const auto stored = stored_fact(spec, layout, *needed);
  if (stored) {
    spec.strata = spec.strata->with_fact(*stored);
  } else if (spec.runner.kind == record::RunnerKind::train) {
    spec.strata = agreed(spec, source, "base", spec.bases, *needed, [&](const record::BaseSpec& base) {
      return described_fact(training_of(base, source), spec.arms.front().parallel, source, launch.program,
                            *needed);
    });
  } else {
    say(fmt::format("training one epoch with each arm's script to see {}", needed->says));
    spec.strata = agreed(spec, source, "arms", spec.arms, *needed, [&](const design::Arm& arm) {
      Launch own = launch;
      own.base = spec.base_of(arm).checkpoint.value();
      return shown_fact(arm, own, *needed);
    });
  }
  const std::vector<ckpt::Reader> no_bases;
  const std::vector<record::Stratum> strata = spec.strata->strata();
  for (std::size_t i = 0; i < strata.size(); ++i) {
    try {
      static_cast<void>(
          spec.strata->population(i, {no_bases, spec.arms.front().parallel, spec.resume_epochs}));
    } catch (const Error& error) {
      fail(error.code(), "{}: strata: {}: {}", source.string(), strata[i].name, error.what());
    }
  }
}

}  // namespace bitrift::campaign
