#include "study/part/trainer_run.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "core/file.h"
#include "study/part/saver.h"

namespace bitrift::study {

TrainerRun run_to_json(Command command, const std::filesystem::path& output) {
  command.arguments.emplace_back("--json");
  command.output = output;
  std::error_code ignored;
  std::filesystem::remove(output, ignored);
  const auto began = std::chrono::steady_clock::now();
  run_program(command, "a run of bitrift-train");
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - began;
  return {printed_json(output), wall.count()};
}

record::Json printed_json(const std::filesystem::path& output) {
  const std::string text = "\n" + read_text(output);
  return record::Json::parse(text.substr(text.find("\n{")));
}

Command resume_in_stages(const std::filesystem::path& trainer, const std::filesystem::path& from, int stages,
                         const std::vector<std::string>& options) {
  Command command{{trainer.string(), "resume", from.string(), "--parallel"}, {}, {}};
  auto& words = command.arguments;
  if (stages == 1) {
    words.emplace_back("serial");
  } else {
    words.insert(words.end(), {"pipeline", "--ranks", std::to_string(stages)});
  }
  words.insert(words.end(), options.begin(), options.end());
  return command;
}

Command resume_as_replicas(const std::filesystem::path& trainer, const std::filesystem::path& from,
                           int replicas, bool shard_optimizer, const std::vector<std::string>& options) {
  Command command{
      {trainer.string(), "resume", from.string(), "--parallel", "data", "--ranks", std::to_string(replicas)},
      {},
      {}};
  auto& words = command.arguments;
  if (shard_optimizer) words.emplace_back("--shard-optimizer");
  words.insert(words.end(), options.begin(), options.end());
  return command;
}

}  // namespace bitrift::study
