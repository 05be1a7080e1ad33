#include "campaign/worker/training_facts.h"

#include <chrono>

#include "campaign/launch/launch.h"
#include "campaign/plan/ends.h"
#include "ckpt/reader.h"
#include "core/error.h"
#include "core/file.h"

namespace bitrift::campaign {

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

Description describe(const record::TrainingSpec& training, const record::Parallel& parallel,
                     const std::filesystem::path& trainer) {
  const TemporaryFolder folder("bitrift-describe");
  const auto spec = folder.path() / "spec.json";
  const auto document = folder.path() / "document";
  const auto errors = folder.path() / "errors";
  replace_text(spec, record::to_text(training));
  Command command = describe_command(trainer, parallel, spec, document);
  command.arguments.emplace_back("--json");
  command.errors = errors;
  Subprocess child(command);
  constexpr std::chrono::minutes longest{5};  // the data may be large
  const auto end = std::chrono::steady_clock::now() + longest;
  Description description;
  while (!description.status && std::chrono::steady_clock::now() < end) {
    description.status = child.wait(0.1);
    InterruptGuard::check();
  }
  description.document = read_text(document);
  description.said = log_tail(errors);
  description.spec = spec.string();
  return description;
}

}  // namespace bitrift::campaign
