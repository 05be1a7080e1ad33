#include "campaign/folder/disk_use.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include <sys/stat.h>

#include "campaign/folder/work_place.h"
#include "campaign/plan/limits.h"
#include "campaign/worker/pool.h"
#include "ckpt/set/checkpoint_files.h"
#include "core/byte_size.h"
#include "core/error.h"
#include "design/kind/run/process_strata.h"

namespace bitrift::campaign {
namespace {

// A line of the summary or of a round's plan for one stratum in one arm, measured: 700 to 900 bytes.
constexpr std::uint64_t bytes_per_group = 1024;
constexpr std::uint64_t usual_log_bytes = std::uint64_t{64} << 10U;

std::uint64_t size_of(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return 0;
  return ckpt::bytes_of(path);
}

// A typical row in which every optional part is present.
std::uint64_t made_up_row(const design::CampaignSpec& spec, std::uint64_t faults) {
  constexpr double long_number = -0.12345678901234567;
  const std::string digest(32, 'f');
  record::TrialRecord row;
  row.kind = record::TrialKind::trial;
  row.id = {"arm", "running_stat.exponent_msb", 1000000};
  row.started = "2026-01-01T00:00:00.000Z";
  row.host = std::string(32, 'h');
  row.seconds = long_number;
  record::AppliedFault fault;
  fault.tensor = "optimizer/momentum_buffer/layer4.1.downsample.0.weight";
  fault.role = "running_stat";
  fault.dtype = "float32";
  fault.bits = {30};
  for (std::uint64_t i = 0; i < faults; ++i) row.faults.bits().append(fault);
  if (spec.orders > 1) row.order = spec.orders - 1;
  record::RunResult result;
  std::size_t replicas = 1;
  for (const design::Arm& arm : spec.arms) {
    replicas = std::max(replicas, static_cast<std::size_t>(arm.parallel.replicas()));
  }
  const record::Evaluation evaluation{1000,        100000,      long_number, long_number,
                                      long_number, long_number, long_number};
  const auto evaluations = static_cast<std::size_t>(std::max<std::int64_t>(1, spec.resume_epochs));
  result.id = row.id.text();
  result.replicas.assign(replicas, std::vector<record::Evaluation>(evaluations, evaluation));
  result.replica_digests.assign(replicas, digest);
  result.final_digest = digest;
  result.test_targets = 100000;
  result.returned_step = 1000;
  result.changed_tensors = {fault.tensor};
  result.last_loss = "0x1.ffffffffffffep-10";
  result.seconds = long_number;
  row.result = result;
  return journal_line(record::to_json(row)).size() + 1;
}

bool same_file_system(const std::filesystem::path& first, const std::filesystem::path& second) {
  struct stat one {};
  struct stat other {};
  return stat(first.c_str(), &one) == 0 && stat(second.c_str(), &other) == 0 && one.st_dev == other.st_dev;
}

[[noreturn]] void refuse(const std::filesystem::path& place, std::uint64_t needed, std::uint64_t free,
                         const char* what) {
  fail(ErrorCode::io,
       "{}: {} need about {}, but only {} are free there: free some disk space, use another folder (-o, "
       "--work-dir), or start anyway with --ignore-space",
       place.string(), what, byte_size_text(needed), byte_size_text(free));
}

// For files as large as the base, in the place of a worker's private copy.
std::size_t copies_of_worker(const design::CampaignSpec& spec) {
  const auto* const ranks = spec.strata.as<design::ProcessStrata>();
  if (ranks == nullptr) return 1;
  std::size_t most = 1;
  for (const design::Arm& arm : spec.arms) {
    const bool relaunches = arm.recovery.kind == record::RecoveryKind::relaunch;
    const bool saves = arm.recovery.checkpoint_every > 0 || ranks->has(record::TrainingPhase::save);
    // The copy, a checkpoint, and one that is being written; in a job that was launched again, also the
    // checkpoint from which it continued.
    most = std::max<std::size_t>(most, 1 + (saves ? 2 : 0) + (relaunches ? 1 : 0));
  }
  return most;
}

}  // namespace

std::size_t most_workers(const design::CampaignSpec& spec, std::size_t side_by_side) {
  // Every worker belongs to one arm.
  return std::min(side_by_side * spec.arms.size(),
                  side_by_side + static_cast<std::size_t>(most_parked_ranks));
}

DiskUse disk_use(const Plan& plan, const Layout& layout, const JournalRows& rows, std::size_t workers) {
  const design::CampaignSpec& spec = plan.spec();
  DiskUse use;
  for (const record::BaseFile& file : spec.files) {
    const std::uint64_t size = size_of(layout.base(file.stem));
    use.bases += size;
    use.copy = std::max(use.copy, size);
  }
  use.copies = workers * copies_of_worker(spec);
  use.logs = workers;
  std::uint64_t preparation = 0;
  for (const auto& chain : plan.preparation(spec.arms.front().name)) preparation += chain.size();
  std::uint64_t planned = spec.arms.size() * preparation;
  if (spec.sampling && spec.sampling->max_trials) {
    planned += *spec.sampling->max_trials;
  } else {
    for (const record::Round& round : plan.rounds()) planned += spec.arms.size() * round.draws();
    use.more_rounds = spec.sampling.has_value();
  }
  const std::uint64_t known = rows.size();
  use.rows = planned > known ? planned - known : 0;
  if (known >= preparation) {
    use.row_bytes = size_of(layout.journal()) / known + 1;
  } else {
    use.row_bytes = made_up_row(spec, 1);
    const std::uint64_t more = made_up_row(spec, jittered_weights) - use.row_bytes;
    use.fault_bytes = spec.arms.size() * static_cast<std::uint64_t>(spec.jitter_runs) * more;
  }
  use.summary = bytes_per_group * (1 + plan.cells().size()) * (1 + spec.arms.size());
  return use;
}

std::string describe(const DiskUse& use, const std::filesystem::path& copies_in, std::uint64_t free) {
  std::string journal = fmt::format("journal {} for {} rows", byte_size_text(use.journal_bytes()), use.rows);
  if (use.more_rounds)
    journal += fmt::format(" and {} for each of later rounds", byte_size_text(use.row_bytes));
  return fmt::format("disk: base {}; {}; at most {} copies of {} in {}; logs at most {} x {}; free {}",
                     byte_size_text(use.bases), journal, use.copies, byte_size_text(use.copy),
                     copies_in.string(), use.logs, byte_size_text(most_log_bytes), byte_size_text(free));
}

void check_space(const DiskUse& use, const std::filesystem::path& root,
                 const std::filesystem::path& copies_in) {
  std::uint64_t needed = use.journal_bytes() + use.summary + use.logs * usual_log_bytes;
  const std::uint64_t free = free_space(root);
  if (same_file_system(root, copies_in)) {
    needed += use.copy_bytes();
  } else if (const std::uint64_t there = free_space(copies_in); there < use.copy_bytes()) {
    refuse(copies_in, use.copy_bytes(), there, "the workers' copies of the base");
  }
  if (free < needed) refuse(root, needed, free, "journal, logs, summary and the workers' copies of the base");
}

}  // namespace bitrift::campaign
