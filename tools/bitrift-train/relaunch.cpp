#include "relaunch.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <system_error>

#include "ckpt/reader.h"
#include "complaint.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "launch/launch.h"
#include "output_place.h"
#include "record/fault/death_note.h"
#include "train/state/checkpoint_folder.h"
#include "train/state/checkpoint_spec.h"

namespace bitrift::cli {
namespace {

constexpr const char* note_variable = "BITRIFT_DEATH_NOTE";
constexpr const char* ledger_variable = "BITRIFT_LEDGER_FOLDER";
constexpr const char* noticed_variable = "BITRIFT_LOSS_NOTICED";
constexpr const char* steps_variable = "BITRIFT_LOSS_STEPS";  // how far the lost job was: see tell_steps()

std::vector<std::string> without_kills(const std::vector<std::string>& words) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--kill" || words[i] == "--relaunched") {
      ++i;
    } else if (!words[i].starts_with("--kill=")) {
      kept.push_back(words[i]);
    }
  }
  return kept;
}

// A checkpoint that a job may continue from, and what tells one version of a file from another.
struct LastFile {
  std::filesystem::path path;
  std::filesystem::file_time_type time;
  bool operator==(const LastFile&) const = default;
};

std::optional<LastFile> last_file(const std::filesystem::path& output) {
  std::filesystem::path file = output;
  if (names_folder(output)) {
    if (train::checkpoints_in(output).empty()) return std::nullopt;
    try {
      file = train::newest_valid(output, train::Look::contents).checkpoint.path;
    } catch (const Error& error) {
      spdlog::warn("{}", error.what());
      return std::nullopt;
    }
  }
  std::error_code error;
  const auto time = std::filesystem::last_write_time(file, error);
  return error ? std::nullopt : std::optional(LastFile{file, time});
}

// "DONE IN_NEXT" for the next launch, as in mpi::Steps.
void tell_steps(const std::optional<mpi::Steps>& steps) {
  if (steps) {
    ::setenv(steps_variable, fmt::format("{} {:d}", steps->done, steps->in_next).c_str(), 1);
  } else {
    ::unsetenv(steps_variable);
    spdlog::warn("no rank on this machine showed how far it was: steps that are lost are not counted");
  }
}

std::optional<mpi::Steps> told_steps() {
  const char* text = std::getenv(steps_variable);
  mpi::Steps steps;
  if (text == nullptr || !(std::istringstream(text) >> steps.done >> steps.in_next)) return std::nullopt;
  return steps;
}

}  // namespace

std::filesystem::path death_note_file() {
  if (const char* named = std::getenv(note_variable)) return named;
  const char* folder = std::getenv("TMPDIR");
  const char* job = std::getenv("PMIX_NAMESPACE");
  std::string name = job == nullptr ? "" : std::filesystem::path(job).filename().string();
  name.resize(std::min(name.size(), name.find('@')));  // spawned processes are another part of the same job
  return std::filesystem::path(folder == nullptr ? "/tmp" : folder) / ("bitrift-death-note-" + name);
}

std::filesystem::path ledger_folder() {
  const char* named = std::getenv(ledger_variable);
  return named == nullptr ? "" : named;
}

int run_with_relaunches(Job job, const std::filesystem::path& output) {
  const TemporaryFolder folder("bitrift-relaunch");
  ::setenv(note_variable, (folder.path() / "note").c_str(), 1);
  ::setenv(ledger_variable, folder.path().c_str(), 1);
  const std::vector<std::string> words = job.arguments;
  auto known = last_file(output);
  std::int64_t reached = -1;
  while (true) {
    const JobEnd end = run_mpirun(job);
    // A rank that was lost after the result was told has changed nothing.
    if (!end.lost) return end.word.value_or(end.code);
    // Planned kills strike in the first launch only, so its notes do not explain a later loss.
    std::error_code ignored;
    if (reached >= 0) std::filesystem::remove(death_note_file(), ignored);
    ::setenv(noticed_variable, fmt::format("{:.9f}", record::monotonic_seconds()).c_str(), 1);
    job.arguments = without_kills(words);
    const auto now = last_file(output);
    const bool has_file = now && (now != known || reached > 0);
    const std::int64_t step = has_file ? train::integer_in(ckpt::Reader(now->path), "progress/step", 0) : 0;
    if (step <= reached) {
      complain(end.no_start.empty()
                   ? fmt::format(
                         "the job lost a rank again before it came beyond step {}; it was not launched again",
                         reached)
                   : end.no_start + "; see what it says");
      return 1;
    }
    tell_steps(end.steps);
    reached = step;
    known = now;
    if (has_file) {
      job.arguments.insert(job.arguments.end(), {"--relaunched", now->path.string()});
    } else {
      job.arguments.emplace_back("--relaunched-from-start");
    }
    spdlog::warn("{}; launching the job again from {}",
                 end.no_start.empty() ? "a rank was lost" : end.no_start,
                 has_file ? fmt::format("step {} in {}", step, now->path.string()) : "the start");
  }
}

record::Relaunch this_relaunch(int ranks, const std::filesystem::path& checkpoint) {
  const char* noticed = std::getenv(noticed_variable);
  const double at = noticed == nullptr ? record::monotonic_seconds() : std::strtod(noticed, nullptr);
  record::Relaunch relaunch = record::relaunch_after(record::death_notes(death_note_file()), ranks, at);
  // A rank that something outside ended has left no note.
  if (const auto steps = told_steps(); steps && relaunch.step == 0) {
    relaunch.step = steps->done + (steps->in_next ? 1 : 0);
    relaunch.phase = steps->in_next ? record::TrainingPhase::forward : record::TrainingPhase::evaluate;
  }
  relaunch.checkpoint = checkpoint;
  relaunch.ledgers = ledger_folder();
  record::Recovery& recovery = relaunch.recoveries.back();
  std::error_code ignored;
  if (!checkpoint.empty())
    recovery.bytes_moved =
        std::filesystem::file_size(checkpoint, ignored) * static_cast<std::uint64_t>(ranks);
  recovery.times.respawn = record::monotonic_seconds() - at;
  return relaunch;
}

}  // namespace bitrift::cli
