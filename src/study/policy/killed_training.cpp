#include "study/policy/killed_training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <optional>
#include <system_error>
#include <utility>

#include "campaign/plan/ends.h"
#include "ckpt/step_name.h"
#include "core/error.h"
#include "study/part/saver.h"
#include "study/part/trainer_run.h"

namespace bitrift::study {
namespace {

// The mean counts, because a training also pays for slow saves, during which the disk was busy.
constexpr double fewest_saves = 3;
constexpr double seconds_between = 2;  // a save in the background is over before the next one

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The checkpoints in a folder whose step is above `after`; nullopt: it has none.
std::optional<std::int64_t> newest_step(const std::filesystem::path& folder, std::int64_t after = -1,
                                        bool with_provenance = false) {
  std::optional<std::int64_t> newest;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto step = ckpt::step_of_name(entry.path().filename().string());
    if (!step || *step <= after) continue;
    if (with_provenance && !std::filesystem::exists(entry.path().string() + ".json")) continue;
    newest = std::max(*step, newest.value_or(*step));
  }
  return newest;
}

// What the training knew when it wrote its newest checkpoint of a life. A kill can come between a file and
// its provenance; then the earlier provenance counts.
void take_costs(const std::filesystem::path& folder, std::int64_t before, Life& life) {
  const auto step = newest_step(folder, before, true);
  if (!step) return;
  const std::filesystem::path beside = folder / (ckpt::checkpoint_name(*step) + ".json");
  const record::Json provenance = record::parse_file(beside).value;
  const record::Json known = provenance.value("checkpoints", record::Json::object());
  life.step = known.value("step_seconds", 0.0);
  life.block = known.value("block_seconds", 0.0);
  life.persist = known.value("persist_seconds", 0.0);
}

double mean_of(const record::Json& times, const record::Json& saves) {
  return times.at("total").get<double>() / saves.at("written").get<double>();
}

}  // namespace

KilledTraining::KilledTraining(std::filesystem::path trainer, std::filesystem::path base,
                               std::filesystem::path folder, std::filesystem::path log)
    : trainer_(std::move(trainer)), base_(std::move(base)), folder_(std::move(folder)), log_(std::move(log)) {
  std::filesystem::create_directories(folder_);
  if (newest_step(folder_)) return;
  run_program(resume({"-o", folder_.string() + "/", "--steps", "0"}), "copying " + base_.string());
}

Command KilledTraining::resume(const std::vector<std::string>& options) const {
  const bool begun = newest_step(folder_).has_value();
  Command command{
      {trainer_.string(), "resume", (begun ? folder_ : base_).string(), "--parallel", "serial"}, {}, log_};
  command.arguments.insert(command.arguments.end(), options.begin(), options.end());
  return command;
}

PolicyCosts KilledTraining::measure(record::SaveMode mode, std::int64_t interval, double mean) {
  const std::filesystem::path output = folder_ / "measured.log";
  const auto seconds_a_step = [](const record::Json& result) {
    return result.at("seconds").get<double>() / result.at("steps").get<double>();
  };
  if (step_ == 0) step_ = seconds_a_step(run_to_json(resume({"--steps", "10"}), output).result);
  const std::int64_t every =
      interval > 0 ? interval : static_cast<std::int64_t>(std::ceil(seconds_between / step_));
  const double saves = std::max(fewest_saves, std::round(mean / (static_cast<double>(every) * step_)));
  const std::int64_t steps = every * static_cast<std::int64_t>(saves) + 1;
  // In the folder of the last measurement, because each life continues in the folder of the last.
  const TrainerRun run =
      run_to_json(resume({"-o", folder_.string() + "/", "--checkpoint-every", std::to_string(every),
                          "--checkpoint-mode", name_of(mode), "--steps", std::to_string(steps)}),
                  output);
  const record::Json& written = run.result.at("checkpoint_seconds");
  PolicyCosts costs;
  costs.step = step_ = seconds_a_step(run.result);
  costs.block = mean_of(written.at("blocking"), written);
  if (written.contains("persist")) costs.persist = mean_of(written["persist"], written);
  costs.restart = run.wall - run.result.at("seconds").get<double>() -
                  written["blocking"].at("total").get<double>() - run.result.at("save_seconds").get<double>();
  return costs;
}

Life KilledTraining::live(record::SaveMode mode, std::int64_t interval, double seconds) {
  const std::int64_t before = newest_step(folder_).value();
  const auto began = Clock::now();
  Subprocess child(resume({"-o", folder_.string() + "/", "--checkpoint-every", std::to_string(interval),
                           "--checkpoint-mode", name_of(mode), "--steps", "1000000000"}));
  while (seconds_since(began) < seconds) {
    campaign::InterruptGuard::check();
    if (const auto status = child.wait(std::clamp(seconds - seconds_since(began), 0.0, 0.1))) {
      fail(ErrorCode::bad_input,
           "a training that was to be killed after {:.1f} s ended by itself with {}; see {}", seconds,
           status->text(), log_.string());
    }
  }
  child.signal_group(SIGKILL);
  const double lived = seconds_since(began);
  child.wait();
  Life life{.seconds = lived, .steps = newest_step(folder_).value() - before};
  take_costs(folder_, before, life);
  return life;
}

}  // namespace bitrift::study
