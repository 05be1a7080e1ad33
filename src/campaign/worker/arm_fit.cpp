#include "campaign/worker/arm_fit.h"

#include <cstddef>
#include <set>
#include <string>

#include "campaign/worker/training_facts.h"
#include "core/error.h"

namespace bitrift::campaign {
namespace {

// What bitrift-train says against a model in this many stages; "" when it can be cut, or when that is not
// known.
std::string refusal(const record::TrainingSpec& training, const record::Parallel& parallel,
                    const std::filesystem::path& trainer) {
  const Description described = describe(training, parallel, trainer);
  if (!described.status || described.status->code != 2) return "";
  const std::string& said = described.said;
  const std::string begin = "bitrift-train: error: " + described.spec + ":";
  const auto text = said.find(": ", begin.size());
  if (!said.starts_with(begin) || text == std::string::npos) return "";
  const std::string key = "parallel: ";
  const std::string problem = said.substr(text + 2);
  return problem.starts_with(key) ? problem.substr(key.size()) : "";
}

}  // namespace

void check_arms_fit(const design::CampaignSpec& spec, const std::filesystem::path& source,
                    const std::filesystem::path& trainer) {
  if (spec.runner.kind != record::RunnerKind::train) return;
  for (std::size_t base = 0; base < spec.bases.size(); ++base) {
    const record::TrainingSpec training = training_of(spec.bases[base], source);
    std::set<std::string> checked;
    for (std::size_t i = 0; i < spec.arms.size(); ++i) {
      const design::Arm& arm = spec.arms[i];
      if (spec.files[arm.file].base != base) continue;
      const std::string where = fmt::format("{}: arms[{}].parallel", source.string(), i / spec.bases.size());
      record::check_parallel(arm.parallel, training.batch_size, where);
      if (arm.parallel.stages == 1 || !checked.insert(record::to_json(arm.parallel).dump()).second) continue;
      const std::string problem = refusal(training, arm.parallel, trainer);
      if (!problem.empty()) fail(ErrorCode::bad_input, "{}: {}", where, problem);
    }
  }
}

}  // namespace bitrift::campaign
