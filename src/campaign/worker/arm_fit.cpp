#include "campaign/worker/arm_fit.h"

#include <chrono>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "campaign/plan/ends.h"
#include "campaign/worker/launch.h"
#include "ckpt/reader.h"
#include "core/error.h"
#include "core/file.h"
#include "core/process/subprocess.h"

namespace bitrift::campaign {
namespace {

using record::Json;

// The training that a base resumes; throws when its checkpoint carries none.
record::TrainingSpec training_of(const record::BaseSpec& base, const std::filesystem::path& source) {
  if (base.train) return *base.train;
  const std::filesystem::path& file = base.checkpoint.value();
  const ckpt::Reader reader(file);
  const auto text = reader.attribute("spec");
  if (!text) {
    fail(ErrorCode::bad_input,
         "{}: base.checkpoint: bitrift-train did not write {}; name the program that resumes from it "
         "as `runner` (docs/exec-runner.md)",
         source.string(), file.string());
  }
  return record::training_spec_from_text(*text, file.string() + ", attribute 'spec'");
}

// What bitrift-train says against a model in so many stages; "" when it can be cut, or when that is not
// known.
std::string refusal(const record::TrainingSpec& training, const record::Parallel& parallel,
                    const std::filesystem::path& trainer) {
  const TemporaryFolder folder("bitrift-describe");
  const auto spec = folder.path() / "spec.json";
  const auto log = folder.path() / "log";
  replace_text(spec, record::to_text(training));
  Subprocess child(describe_command(trainer, parallel, spec, log));
  constexpr std::chrono::minutes longest{5};  // the data may be large
  const auto end = std::chrono::steady_clock::now() + longest;
  std::optional<ExitStatus> status;
  while (!status && std::chrono::steady_clock::now() < end) {
    status = child.wait(0.1);
    InterruptGuard::check();
  }
  if (!status || status->code != 2) return "";
  const std::string said = log_tail(log);
  const std::string begin = "bitrift-train: error: " + spec.string() + ":";
  const auto text = said.find(": ", begin.size());
  if (!said.starts_with(begin) || text == std::string::npos) return "";
  const std::string key = "parallel: ";
  const std::string problem = said.substr(text + 2);
  return problem.starts_with(key) ? problem.substr(key.size()) : "";
}

}  // namespace

void check_arms_fit(const record::CampaignSpec& spec, const std::filesystem::path& source,
                    const std::filesystem::path& trainer) {
  if (spec.runner.kind != record::RunnerKind::train) return;
  for (std::size_t base = 0; base < spec.bases.size(); ++base) {
    const record::TrainingSpec training = training_of(spec.bases[base], source);
    std::set<std::string> checked;
    for (std::size_t i = 0; i < spec.arms.size(); ++i) {
      const record::Arm& arm = spec.arms[i];
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
