#include "campaign/driver.h"

#include <algorithm>
#include <array>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "analyze/allocate.h"
#include "analyze/classify.h"
#include "campaign/disk_use.h"
#include "campaign/ends.h"
#include "campaign/json_diff.h"
#include "campaign/private_copy.h"
#include "campaign/scratch.h"
#include "campaign/work_place.h"
#include "core/error.h"
#include "core/log.h"
#include "record/provenance.h"

namespace bitrift::campaign {
namespace {

using record::Json;
using record::TrialKind;

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string list_of(const std::vector<std::string>& names) {
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

// Everything that can be refused without a folder is refused before one is made.
record::CampaignSpec checked_spec(const RunOptions& options, const Drills& drills) {
  record::CampaignSpec spec = record::read_campaign_spec(options.spec, options.overrides);
  if (options.workers && *options.workers < 1) {
    fail(ErrorCode::bad_input, "--workers {}: at least one worker is needed", *options.workers);
  }
  const bool ready = std::all_of(spec.files.begin(), spec.files.end(), [&](const record::BaseFile& file) {
    return file.precision.empty() && spec.bases[file.base].checkpoint;
  });
  if (ready) {
    Bases bases;
    for (const record::BaseFile& file : spec.files) bases.emplace_back(*spec.bases[file.base].checkpoint);
    const Plan plan(spec, bases);
    for (const auto& drill : drills.trials) static_cast<void>(plan.find(trial_id_from_text(drill.first)));
  }
  return spec;
}

std::size_t count_done(const std::vector<Job>& missing, std::size_t total) {
  std::size_t left = 0;
  for (const Job& job : missing) left += job.runs.size();
  return total > left ? total - left : 0;
}

// Stage after stage; throws Misbehaviour when the controls or canaries forbid to go on.
void run_preparation(const Plan& plan, const Driver& driver, Pool& pool, const Journal& journal,
                     Progress& progress) {
  const record::CampaignSpec& spec = plan.spec();
  std::size_t preparations = 0;
  for (const record::Arm& arm : spec.arms) {
    for (const auto& chain : plan.preparation(arm.name)) preparations += chain.size();
  }
  std::vector<Job> jobs = driver.preparation_jobs();
  progress.stage("controls, envelope, canaries", count_done(jobs, preparations), preparations);
  pool.run(std::move(jobs));

  const auto rows = journal.rows().effective();
  std::vector<std::string> problems;
  try {
    problems = analyze::canary_problems(rows, analyze::controls_of(rows, spec.judge), spec.judge);
  } catch (const Error& error) {
    problems = {error.what()};
  }
  if (!problems.empty()) throw Misbehaviour(fmt::format("{}", fmt::join(problems, "\n")));
}

std::string round_name(const record::Round& round, const record::CampaignSpec& spec) {
  if (!spec.sampling) return "trials";
  std::string name = fmt::format("round {}", round.number);
  if (const record::Reached* widest = round.widest()) {
    name +=
        fmt::format(" (+-{:.2f} of {:g} points)", 100 * widest->half_width, 100 * spec.sampling->half_width);
  }
  return name;
}

// Round after round, each planned from all rows of those before, until one says stop.
void run_rounds(Plan& plan, const Driver& driver, Pool& pool, const Journal& journal, Folder& folder,
                Progress& progress) {
  const record::CampaignSpec& spec = plan.spec();
  while (true) {
    const record::Round& round = plan.rounds().back();
    folder.publish_round(round);
    if (!round.stop.empty()) {
      if (spec.sampling)
        progress.note(fmt::format("stopped after round {}: {}", round.number - 1, stop_text(round)));
      return;
    }
    std::vector<Job> jobs = driver.trial_jobs();
    std::size_t trials = 0;
    for (const record::Arm& arm : spec.arms) trials += plan.trials(arm.name).size();
    if (!jobs.empty() || !spec.sampling) {
      progress.stage(round_name(round, spec), count_done(jobs, trials), trials);
      pool.run(std::move(jobs));
    }
    analyze::Observations seen;
    if (spec.sampling) seen = analyze::observe(journal.rows().effective(), spec);
    plan.add_round(analyze::next_round(spec, plan.strata(), plan.rounds(), seen));
  }
}

std::optional<std::chrono::steady_clock::time_point> end_of(const RunOptions& options) {
  using Clock = std::chrono::steady_clock;
  if (!options.max_hours) return std::nullopt;
  // No clock counts further than this.
  const std::chrono::duration<double, std::ratio<3600>> hours(std::min(*options.max_hours, 1e5));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(hours);
}

PoolOptions pool_options(const RunOptions& options, const record::CampaignSpec& spec, const Drills& drills,
                         const Layout& layout, const WorkPlace& place, const std::filesystem::path& trainer) {
  PoolOptions pool;
  pool.launch = {trainer, {}, spec.launch, drills.ignore_file, spec.exec};
  pool.arms = spec.arms;
  pool.workers = options.workers;
  pool.check_every = spec.check_every;
  pool.early_end = spec.early_end;
  pool.memory = spec.memory;
  pool.flip_nothing = drills.flip_nothing;
  pool.place_of = [layout, &place](int slot) {
    const std::string name = std::to_string(slot);
    return WorkerPlace{place.copy(name), layout.log("worker-" + name), scratch_name(layout.root, name)};
  };
  return pool;
}

// Where private copies go, when all that will be written has its place.
std::unique_ptr<WorkPlace> find_place(const RunOptions& options, const Plan& plan, const Layout& layout,
                                      const JournalRows& rows, Progress& progress) {
  const record::CampaignSpec& spec = plan.spec();
  const int side_by_side = options.workers.value_or(usable_cores());
  const DiskUse use =
      disk_use(plan, layout, rows, most_workers(spec, static_cast<std::size_t>(side_by_side)));
  // A launcher may start ranks on other machines, and a command of the user's anything anywhere.
  const bool local = spec.launch.empty() && spec.exec.empty();
  auto place = std::make_unique<WorkPlace>(
      WorkQuestion{layout.root, layout.work(), options.work_dir, use.copy_bytes(), local});
  progress.note(describe(use, place->folder(), free_space(layout.root)));
  if (!options.ignore_space) check_space(use, layout.root, place->folder());
  return place;
}

}  // namespace

RunReport run_campaign(const RunOptions& options, Progress& progress) {
  const InterruptGuard interrupts;
  const auto end = end_of(options);
  const Drills drills = parse_drills(options.drills);
  const record::CampaignSpec spec = checked_spec(options, drills);
  const bool trains = std::any_of(spec.bases.begin(), spec.bases.end(),
                                  [](const record::BaseSpec& base) { return base.train.has_value(); });
  const auto trainer = spec.exec.empty() || trains ? find_trainer() : std::filesystem::path();
  Folder folder(std::filesystem::absolute(options.folder), spec, drills, options.command);
  progress.note(
      fmt::format("campaign '{}', seed {}, in {}", spec.name, spec.seed, folder.layout().root.string()));
  folder.prepare_bases(trainer, [&](const std::string& what) { progress.note(what); });
  const Bases bases = open_bases(folder.layout(), spec);
  Plan plan(spec, bases);
  for (const auto& drill : drills.trials) static_cast<void>(plan.find(trial_id_from_text(drill.first)));
  folder.publish_round(plan.rounds().front());
  Journal journal(folder.layout().journal());
  if (journal.torn_bytes() > 0) {
    progress.note(fmt::format("cut {} bytes of a torn last line off the journal", journal.torn_bytes()));
  }
  for (const std::string& id : journal.rows().duplicates()) {
    spdlog::warn("{}: {} stands twice; the first row counts", folder.layout().journal().string(), id);
  }
  remove_scratch_of(folder.layout().root);
  const auto place = find_place(options, plan, folder.layout(), journal.rows(), progress);
  RunReport report;
  try {
    Driver driver(folder, drills, plan, journal, progress);
    Pool pool(pool_options(options, spec, drills, folder.layout(), *place, trainer), driver, bases);
    if (end) driver.end_at(*end);
    try {
      run_preparation(plan, driver, pool, journal, progress);
      report.judged = true;
      driver.show_rates();
      run_rounds(plan, driver, pool, journal, folder, progress);
      pool.retire();
    } catch (const OutOfTime& over) {
      report.unfinished = over.what();
    }
    report.incidents = driver.incidents();
    journal.sync();
  } catch (const Misbehaviour& problem) {
    std::istringstream lines(problem.what());
    for (std::string line; std::getline(lines, line);) report.problems.push_back(line);
  }
  folder.remove_work();
  return report;
}

record::TrialRecord row_of(const Ran& ran, std::uint64_t stratum_bits, const Drills& drills) {
  record::TrialRecord row;
  row.kind = ran.spec.kind;
  row.id = ran.spec.id;
  row.stratum_bits = stratum_bits;
  // A canary alters whole tensors; its stratum's name and the base say which bits, and the result which
  // tensors.
  if (ran.spec.kind != TrialKind::canary) row.faults = ran.spec.faults;
  row.replicas = ran.spec.replicas;
  row.result = ran.result;
  row.failure = ran.failure;
  row.started = ran.started;
  row.host = host_name();
  row.seconds = ran.seconds;
  row.attempts = ran.attempts;
  row.measure = ran.spec.measure;
  const std::vector<std::string> altered = altered_tensors(ran.spec.faults);
  row.no_change = row.kind == TrialKind::trial && altered.empty();
  // Of a run without a result only this is known: that the file was altered, and read back.
  row.landed = ran.result ? ran.result->changed_tensors == altered : altered.empty() || !drills.blind();
  const bool refused = ran.result && ran.result->status == "rejected";
  if (row.landed || refused || drills.blind() || row.kind == TrialKind::canary) return row;
  throw Misbehaviour(
      fmt::format("{}: the fault did not land: altered in the file {}, different when loaded {}",
                  row.id.text(), list_of(altered), list_of(ran.result->changed_tensors)));
}

Driver::Driver(Folder& folder, const Drills& drills, const Plan& plan, Journal& journal, Progress& progress)
    : folder_(folder),
      drills_(drills),
      plan_(plan),
      journal_(journal),
      progress_(progress),
      controls_(plan.spec(), journal.rows().effective()),
      incident_file_(folder.layout().incidents()) {
  for (const auto& [stem, digest] : folder.base_digests()) {
    watches_.emplace_back(folder.layout().base(stem), digest);
  }
}

Driver::~Driver() { progress_.show(nullptr); }

std::vector<Job> Driver::preparation_jobs() const {
  std::vector<Job> jobs;
  for (std::size_t arm = 0; arm < plan_.spec().arms.size(); ++arm) {
    for (auto& chain : plan_.preparation(arm_name(arm))) {
      // A chain runs as a whole: its last control shows something only behind its canaries.
      const auto missing = [&](const RunKey& key) { return journal_.rows().find(key.id) == nullptr; };
      if (std::any_of(chain.begin(), chain.end(), missing)) jobs.push_back({arm, std::move(chain), 0, {}});
    }
  }
  return jobs;
}

std::vector<Job> Driver::trial_jobs() const {
  std::vector<Job> jobs;
  for (std::size_t arm = 0; arm < plan_.spec().arms.size(); ++arm) {
    for (RunKey& key : plan_.trials(arm_name(arm))) {
      if (journal_.rows().find(key.id) == nullptr) jobs.push_back({arm, {std::move(key)}, 0, {}});
    }
  }
  return jobs;
}

record::TrialSpec Driver::expand(const RunKey& key) {
  check_bases();
  record::TrialSpec spec = plan_.expand(key);
  spec.drill = drills_.of(key.id.text());
  // A leak that came back with the repetition would never end.
  if (spec.drill == "leak" && !leaked_.insert(key.id.text()).second) spec.drill.clear();
  return spec;
}

double Driver::deadline_s(std::size_t arm) { return controls_.deadline_s(arm_name(arm)); }

bool Driver::golden_known(std::size_t arm) { return controls_.golden_known(arm_name(arm)); }

void Driver::on_ready(std::size_t arm, const record::Ready& ready) {
  check_bases();  // the worker and its private copy have just read it
  // Guards with a memory have state of their own.
  const record::Arm& of = plan_.spec().arms[arm];
  const auto [known, first] = base_digests_.emplace(
      std::pair(of.file, of.guards ? record::to_json(*of.guards).dump() : ""), ready.base_digest);
  if (known->second != ready.base_digest) {
    throw Misbehaviour(
        fmt::format("arm '{}': the base was loaded with state digest {}, by earlier workers with {}",
                    arm_name(arm), ready.base_digest, known->second));
  }
  folder_.note_trainer(ready.environment);
}

std::optional<std::string> Driver::on_check(std::size_t arm, const record::RunResult& result) {
  try {
    controls_.check(arm_name(arm), result, "check of a worker");
  } catch (const Misbehaviour& problem) {
    return problem.what();
  }
  return std::nullopt;
}

void Driver::on_doubt(std::size_t arm, const std::vector<RunKey>& runs, const std::string& why) {
  std::vector<std::string> ids;
  ids.reserve(runs.size());
  for (const RunKey& run : runs) ids.push_back(run.id.text());
  spdlog::warn(
      "arm '{}': a worker's no-flip run is not the golden run any more; {} rows since its last check "
      "are retracted and run again: {}",
      arm_name(arm), ids.size(), why);
  journal_.retract(ids, why);
  progress_.take_back(ids.size());
  for (const RunKey& run : runs) {
    if (rates_) rates_->remove(run.id);
  }
}

void Driver::check_bases() {
  for (BaseWatch& watch : watches_) watch.check();
}

void Driver::show_rates() {
  const auto rows = journal_.rows().effective();
  rates_.emplace(plan_.spec(), analyze::controls_of(rows, plan_.spec().judge));
  for (const record::TrialRecord& row : rows) rates_->add(row);
  progress_.show(&*rates_);
}

void Driver::check_clean(const Ran& ran) {
  const std::string id = ran.spec.id.text();
  if (ran.failure) {
    throw Misbehaviour(
        fmt::format("{}: the clean run failed twice: {} {}", id, ran.failure->reason, ran.failure->detail));
  }
  if (ran.spec.kind == TrialKind::control && ran.spec.id.stratum != zero_step_stratum) {
    controls_.check(ran.spec.id.arm, *ran.result, id);
    controls_.took(ran.spec.id.arm, ran.seconds);
  }
}

void Driver::on_run(const Ran& ran) {
  if (ran.spec.kind == TrialKind::control || ran.spec.kind == TrialKind::envelope) check_clean(ran);
  const record::TrialRecord row = row_of(ran, plan_.stratum_bits({ran.spec.kind, ran.spec.id}), drills_);
  const record::TrialRecord* known = journal_.rows().find(row.id);
  if (known == nullptr) {
    journal_.append(row);
    if (rates_) rates_->add(row);
    progress_.advance();
    return;
  }
  if (const auto difference = journal_difference({*known}, {row})) {
    throw Misbehaviour("a run that was repeated differs from its row: " + *difference);
  }
}

void Driver::on_incident(const Incident& incident) {
  ++incidents_;
  const Json failure = {{"reason", incident.failure.reason},
                        {"detail", incident.failure.detail},
                        {"signal", incident.failure.signal}};
  const Json line = {{"time", record::utc_now()}, {"phase", incident.phase},     {"id", incident.id},
                     {"arm", incident.arm},       {"worker", incident.worker},   {"pid", incident.pid},
                     {"failure", failure},        {"attempt", incident.attempt}, {"host", host_name()}};
  incident_file_.append(line.dump(-1, ' ', false, Json::error_handler_t::replace));
  progress_.incident();
}

void Driver::on_tick() {
  journal_.sync_if_due();
  incident_file_.sync_if_due();
  check_bases();
  progress_.tick();
  InterruptGuard::check();
  if (end_ && std::chrono::steady_clock::now() >= *end_) throw OutOfTime();
}

}  // namespace bitrift::campaign
