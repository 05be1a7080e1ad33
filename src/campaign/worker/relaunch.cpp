#include "campaign/worker/relaunch.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/file.h"
#include "record/fault/death_note.h"

namespace bitrift::campaign {
namespace {

using record::DeathNote;
using record::ProcessFault;
using record::TrainingPhase;

void move_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code error;
  std::filesystem::rename(from, to, error);
  if (error) fail(ErrorCode::io, "cannot move {} to {}: {}", from.string(), to.string(), error.message());
}

// Removes the faults that have struck from `faults`. Ranks that are to fail in the same step are all lost
// with the first of them: the job ends.
std::vector<int> take_struck(std::vector<ProcessFault>& faults, const std::vector<DeathNote>& deaths) {
  const auto struck = [&](const ProcessFault& fault) {
    return std::any_of(deaths.begin(), deaths.end(), [&](const DeathNote& death) {
      const bool same_phase = death.rank == fault.rank && death.phase == fault.phase;
      const bool in_step = death.phase != TrainingPhase::recovery && fault.phase != TrainingPhase::recovery;
      return death.step == fault.step && (same_phase || in_step);
    });
  };
  std::vector<int> ranks;
  for (const ProcessFault& fault : faults) {
    if (struck(fault)) ranks.push_back(fault.rank);
  }
  std::erase_if(faults, struck);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

// Moves checkpoint and ledgers to where the next worker finds them. Whether there is a checkpoint.
bool keep_files(const PrivateCopy& copy, const std::filesystem::path& folder) {
  const std::filesystem::path ledgers = copy.beside("ledgers"), kept = folder / "ledgers";
  std::filesystem::create_directories(kept);
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(ledgers, none))
    move_file(entry.path(), kept / entry.path().filename());
  const std::filesystem::path checkpoint = copy.beside("saved");
  const bool saved = std::filesystem::exists(checkpoint);
  if (saved) move_file(checkpoint, folder / "checkpoint.h5");
  return saved;
}

}  // namespace

std::optional<Loss> loss_of_run(const Crew& crew, int ranks, bool one_clock) {
  const double noticed = record::monotonic_seconds();
  const std::vector<DeathNote> deaths = record::death_notes(crew.copy->beside("deaths"));
  if (deaths.empty()) return std::nullopt;
  const std::optional<RelaunchedRun>& earlier = crew.job->relaunched;
  RelaunchedRun next{.from = record::relaunch_after(deaths, ranks, noticed)};
  next.faults = earlier ? earlier->faults : crew.current.spec.faults.processes();
  record::Recovery& recovery = next.from.recoveries.back();
  recovery.failed = take_struck(next.faults, deaths);
  if (recovery.failed.empty()) return std::nullopt;
  if (!one_clock) recovery.times.detect.reset();
  next.files = earlier ? earlier->files
                       : std::make_shared<const TemporaryFolder>("run", crew.copy->path().parent_path());
  next.started = earlier ? earlier->started : crew.current.started;
  next.seconds = crew.current.seconds + (earlier ? earlier->seconds : 0);
  const std::filesystem::path& folder = next.files->path();
  const bool saved = keep_files(*crew.copy, folder);
  next.from.ledgers = folder / "ledgers";
  if (saved) {
    next.from.checkpoint = folder / "checkpoint.h5";
  } else if (earlier) {
    // It has not progressed: the ledger does not know about the earlier losses.
    next.from.checkpoint = earlier->from.checkpoint;
    next.from.recoveries.insert(next.from.recoveries.begin(), earlier->from.recoveries.begin(),
                                earlier->from.recoveries.end());
  }
  if (earlier && next.from.phase == TrainingPhase::recovery) {
    next.from.step = earlier->from.step;
    next.from.phase = earlier->from.phase;
  }
  const std::filesystem::path file =
      next.from.checkpoint.empty() ? crew.copy->path() : std::filesystem::path(next.from.checkpoint);
  next.from.recoveries.back().bytes_moved =
      std::filesystem::file_size(file) * static_cast<std::uint64_t>(ranks);

  Loss loss;
  loss.ended.id = crew.current.spec.id.text();
  loss.ended.status = record::RunStatus::unrecovered;
  const std::vector<int>& failed = next.from.recoveries.back().failed;
  loss.ended.detail =
      fmt::format("rank {} failed, and the run cannot continue: recovery is off", fmt::join(failed, " and "));
  loss.ended.recoveries.push_back({.kind = record::RecoveryKind::none, .failed = failed});
  loss.next = std::move(next);
  return loss;
}

}  // namespace bitrift::campaign
