#include "campaign/commands/run_campaign.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <system_error>

#include "campaign/commands/merge.h"
#include "campaign/driver/driver.h"
#include "campaign/driver/stages.h"
#include "campaign/folder/disk_use.h"
#include "campaign/folder/fact.h"
#include "campaign/folder/resume_audit.h"
#include "campaign/folder/work_place.h"
#include "campaign/plan/ends.h"
#include "campaign/plan/limits.h"
#include "campaign/worker/arm_fit.h"
#include "campaign/worker/scratch.h"
#include "ckpt/container/open_container.h"
#include "core/error.h"
#include "core/file.h"
#include "core/log.h"

namespace bitrift::campaign {
namespace {

/// bitrift-train resumes a campaign's trials from HDF5; a user's own program loads what it likes.
void refuse_other_formats(const design::CampaignSpec& spec) {
  if (spec.runner.kind != record::RunnerKind::train) return;
  for (const record::BaseSpec& base : spec.bases) {
    const std::string other = base.checkpoint ? ckpt::other_than_hdf5(*base.checkpoint) : "";
    if (other.empty()) continue;
    fail(ErrorCode::unsupported,
         "{}: is {}, but bitrift-train takes HDF5 as the base of a campaign; convert it "
         "(`bitrift-train resume FILE -o base.h5 --steps 0`, or for a file of your own "
         "`python -m bitrift from-pt`), or name your own script as runner.python",
         base.checkpoint->string(), other);
  }
}

// Everything that can be refused without a folder is refused before one is made.
void check_before_folder(design::CampaignSpec& spec, const RunOptions& options, const Drills& drills,
                         const Launch& launch, Progress& progress) {
  refuse_other_formats(spec);
  const Layout layout{options.folder};
  const bool begun = std::filesystem::exists(layout.journal()) || std::filesystem::exists(layout.shards());
  if (!begun || options.extend) check_arms_fit(spec, options.spec, launch.program);
  find_fact(spec, layout, options.spec, launch, [&](const std::string& text) { progress.note(text); });
  drills.check(spec);
  const bool ready = std::all_of(spec.files.begin(), spec.files.end(), [&](const record::BaseFile& file) {
    return file.precision.empty() && spec.bases[file.base].checkpoint;
  });
  if (ready) {
    Bases bases;
    for (const record::BaseFile& file : spec.files) bases.emplace_back(*spec.bases[file.base].checkpoint);
    const Plan plan(spec, bases);
    for (const auto& drill : drills.trials) static_cast<void>(plan.find(trial_id_from_text(drill.first)));
  }
}

std::optional<std::chrono::steady_clock::time_point> end_of(const RunOptions& options) {
  using Clock = std::chrono::steady_clock;
  if (!options.max_hours) return std::nullopt;
  // No clock counts beyond this.
  const std::chrono::duration<double, std::ratio<3600>> hours(std::min(*options.max_hours, 1e5));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(hours);
}

PoolOptions pool_options(const RunOptions& options, const design::CampaignSpec& spec, const Drills& drills,
                         const DriverPlace& place, const WorkPlace& copies,
                         const std::filesystem::path& scratch, const Launch& launch) {
  PoolOptions pool;
  pool.launch = launch;
  pool.arms = spec.arms;
  pool.workers = options.workers;
  pool.check_every = spec.check_every;
  pool.orders = spec.orders;
  pool.early_end = spec.early_end;
  pool.propagation = spec.propagation;
  pool.compare_loaded = spec.files.front().unread.has_value();
  pool.start_deadline_s = spec.start_deadline();
  pool.memory = spec.memory;
  pool.network = spec.network;
  pool.listen_at = listen_address();
  pool.flip_nothing = drills.flip_nothing;
  pool.place_of = [place, scratch, &copies](int slot) {
    const std::string name = std::to_string(slot);
    return WorkerPlace{copies.copy(name), place.log("worker-" + name), scratch_name(scratch, name)};
  };
  return pool;
}

// Everything that a start needs; all of it outlives the run.
struct Work {
  const RunOptions& options;
  const design::CampaignSpec& spec;
  const Drills& drills;
  const Launch& launch;
  Folder& folder;
  Shard* shard;  // nullptr: undivided
  std::optional<std::chrono::steady_clock::time_point> end;
  Progress& progress;
};

// A level is stated in steps of 1 / (envelope runs + 1): Calibration::level().
void note_level(const Work& work) {
  const double asked = work.spec.level;
  const double smallest = 1.0 / (work.spec.envelope_runs + 1);
  if (asked >= smallest) return;
  work.progress.note(
      fmt::format("level: {} envelope runs can state {:.2g} % at best, not the {:g} % of analysis.level: set "
                  "controls.envelope to {:.0f}, or analysis.level to {:.2g}",
                  work.spec.envelope_runs, 100 * smallest, 100 * asked, std::ceil(1 / asked - 1e-9) - 1,
                  std::ceil(100 * smallest) / 100));
}

// A command that names what to change in a script.
std::string remedy_of(const Work& work) {
  const record::RunnerSpec& runner = work.spec.runner;
  if (runner.kind != record::RunnerKind::python) return "";
  const design::Arm& arm = work.spec.arms.front();
  return fmt::format("python -m bitrift.runner {}{}{} --checkpoint {} --check{}{}{}", runner.script.string(),
                     runner.function.empty() ? "" : ":", runner.function,
                     work.folder.layout().base(work.spec.files.front().stem).string(),
                     arm.parallel.ranks > 1 ? fmt::format(" --ranks {}", arm.parallel.ranks) : "",
                     arm.words.empty() ? "" : " -- ", fmt::join(arm.words, " "));
}

// Asked once in the life of a folder; said at every start.
void audit_script(const Work& work) {
  const std::filesystem::path path = work.folder.layout().audit();
  const auto ask = [&] {
    if (!work.options.audit || std::filesystem::exists(path)) return;
    const auto say = [&](const std::string& text) { work.progress.note(text); };
    replace_text(path, audit_resumes(work.spec, work.launch, work.folder.layout().log("audit"), say).dump(2));
  };
  if (work.shard == nullptr) {
    ask();
  } else {
    work.shard->alone(ask);
  }
  if (!std::filesystem::exists(path)) return;
  for (const std::string& line : audit_lines(record::Json::parse(read_text(path), nullptr, false)))
    work.progress.note(line);
}

// The place of private copies, once all files to be written have their place.
std::unique_ptr<WorkPlace> find_place(const Work& work, const Plan& plan, const DriverPlace& place,
                                      const std::filesystem::path& owner, const JournalRows& rows) {
  const Layout& layout = work.folder.layout();
  const int side_by_side = work.options.workers.value_or(usable_cores());
  const DiskUse use =
      disk_use(plan, layout, rows, most_workers(work.spec, static_cast<std::size_t>(side_by_side)));
  // A launcher may start ranks on other machines, and a user's command can start anything anywhere.
  const bool local =
      work.spec.launch.empty() && work.spec.runner.kind != record::RunnerKind::exec && !work.spec.network;
  auto found = std::make_unique<WorkPlace>(
      WorkQuestion{owner, place.work(), work.options.work_dir, use.copy_bytes(), local});
  work.progress.note(describe(use, found->folder(), free_space(layout.root)));
  note_level(work);
  if (!work.options.ignore_space) check_space(use, layout.root, found->folder());
  return found;
}

void prepare_bases(const Work& work) {
  const auto make = [&] {
    work.folder.prepare_bases(work.launch, [&](const std::string& what) { work.progress.note(what); });
  };
  if (work.shard == nullptr) {
    make();
  } else {
    work.shard->prepare_bases(work.folder, make);
  }
  work.folder.note_answers();
}

// Called once everything that can be refused has been checked.
void store_extension(const Work& work) {
  if (!work.folder.extends()) return;
  if (work.shard == nullptr) return work.folder.extend();
  work.shard->alone([&] { work.folder.extend(); });
}

void say_what_was_repaired(const Journal& journal, const std::filesystem::path& path, Progress& progress) {
  if (journal.torn_bytes() > 0) {
    progress.note(
        fmt::format("removed {} bytes of an incomplete last line from the journal", journal.torn_bytes()));
  }
  for (const std::string& id : journal.rows().duplicates()) {
    spdlog::warn("{}: {} occurs twice; the first row counts", path.string(), id);
  }
}

// The first shard that has finished everything joins the journals for all.
void join(const Work& work) {
  if (work.shard == nullptr || is_merged(work.folder.layout())) return;
  const Merged merged = merge_shards(work.folder.layout());
  work.progress.note(fmt::format("joined {} rows of {} shards", merged.rows, work.shard->id().count));
}

RunReport run_in(const Work& work) {
  const Layout& layout = work.folder.layout();
  const DriverPlace place = work.shard == nullptr ? layout.place() : work.shard->place();
  const auto scratch = work.shard == nullptr ? layout.root : work.shard->scratch_root();
  prepare_bases(work);
  audit_script(work);
  const Bases bases = open_bases(layout, work.spec);
  Plan plan(work.spec, bases);
  for (const auto& drill : work.drills.trials) static_cast<void>(plan.find(trial_id_from_text(drill.first)));
  store_extension(work);
  work.folder.publish_round(plan.rounds().front());
  Journal journal(place.journal());
  say_what_was_repaired(journal, place.journal(), work.progress);
  Ledger ledger(journal, work.shard == nullptr ? nullptr : &work.shard->others(),
                work.shard == nullptr ? 1 : work.shard->id().index);
  if (work.shard == nullptr) remove_scratch_of(scratch);
  const auto copies = find_place(work, plan, place, scratch, journal.rows());
  RunReport report;
  try {
    Driver driver(work.folder, work.drills, plan, ledger, work.shard, work.progress);
    Pool pool(pool_options(work.options, work.spec, work.drills, place, *copies, scratch, work.launch),
              driver, bases);
    if (work.end) driver.end_at(*work.end);
    const int side_by_side = work.options.workers.value_or(usable_cores());
    Stages stages({plan, driver, pool, ledger, work.folder, work.progress, side_by_side});
    try {
      stages.prepare();
      report.judged = true;
      driver.show_rates();
      stages.run_rounds();
      pool.retire();
      journal.sync();
      join(work);
    } catch (const OutOfTime& over) {
      report.unfinished = over.what();
      report.joined = work.shard == nullptr;
    }
    report.incidents = driver.incidents();
    journal.sync();
  } catch (const Misbehaviour& problem) {
    report.problems = problem.problems();
    report.remedy = remedy_of(work);
  }
  std::error_code ignored;
  std::filesystem::remove_all(place.work(), ignored);
  return report;
}

}  // namespace

RunReport run_campaign(const RunOptions& options, Progress& progress) {
  const InterruptGuard interrupts;
  const auto end = end_of(options);
  const Drills drills = parse_drills(options.drills);
  if (options.workers && *options.workers < 1) {
    fail(ErrorCode::bad_input, "--workers {}: at least one worker is needed", *options.workers);
  }
  design::CampaignSpec asked = design::read_campaign_spec(options.spec, options.overrides);
  if (began_without_reader_canaries(options.folder)) asked.reader_canaries.reset();
  if (options.audit && asked.runner.kind != record::RunnerKind::python)
    fail(ErrorCode::bad_input, "--audit is for the PyTorch script of runner.python, which this spec lacks");
  const bool trains = std::any_of(asked.bases.begin(), asked.bases.end(),
                                  [](const record::BaseSpec& base) { return base.train.has_value(); });
  const Launch launch = launch_of(asked, trains, drills.ignore_file);
  check_before_folder(asked, options, drills, launch, progress);
  Folder folder(std::filesystem::absolute(options.folder), asked, drills, options.command,
                options.shard ? options.shard->count : 0,
                options.extend ? OtherSpec::extend : OtherSpec::refuse);
  const design::CampaignSpec& spec = folder.spec();
  const Layout& layout = folder.layout();
  progress.note(fmt::format("campaign '{}', seed {}, in {}{}", spec.name, spec.seed, layout.root.string(),
                            options.shard ? ", shard " + options.shard->text() : ""));
  if (!folder.note().empty()) progress.note(folder.note());
  std::optional<Shard> shard;
  if (options.shard) shard.emplace(layout, *options.shard, options.patience, progress);
  const Work work{options, spec, drills, launch, folder, shard ? &*shard : nullptr, end, progress};
  try {
    RunReport report = run_in(work);
    if (shard) shard->set_end(report.problems.empty() ? report.unfinished : report.problems.front());
    return report;
  } catch (const std::exception& error) {
    if (shard) shard->set_end(error.what());
    throw;
  }
}

}  // namespace bitrift::campaign
