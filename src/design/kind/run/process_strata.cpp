#include "design/kind/run/process_strata.h"

#include <algorithm>
#include <map>
#include <utility>

#include <signal.h>

#include "core/error.h"
#include "core/named_enum.h"
#include "design/kind/run/recoveries.h"
#include "design/kind/run/storm.h"

namespace bitrift::design {
namespace {

using record::Document;
using record::FailureMode;
using record::Json;
using record::Parallel;
using record::ProcessFault;
using record::RecoveryKind;
using record::RecoverySpec;
using record::TrainingPhase;

enum class ProcessCanary { unreached, recovers, no_recovery };
constexpr EnumNames<3> names_of(ProcessCanary) {
  return {"canary", {"canary:unreached", "canary:recovers", "canary:no-recovery"}};
}

// Products of a number up to this and a number of ranks fit into 64 bits.
constexpr std::uint64_t most_members = std::uint64_t{1} << 47U;

// At most most_members + 1, which means: too many.
std::uint64_t capped_product(std::uint64_t a, std::uint64_t b) {
  if (a != 0 && b > most_members / a) return most_members + 1;
  return a * b;
}

// The number of sets of `size` among `all`; capped as above.
std::uint64_t subsets(std::uint64_t all, std::uint64_t size) {
  if (size > all) return 0;
  std::uint64_t count = 1;
  for (std::uint64_t i = 0; i < std::min(size, all - size); ++i) {
    count = count * (all - i) / (i + 1);
    if (count > most_members) return most_members + 1;
  }
  return count;
}

// Set `number` of those of this size among 0, 1, ..., all - 1, in colexicographic order: the combinatorial
// number system (Knuth, TAOCP 4A, 7.2.1.3, theorem L).
std::vector<std::uint64_t> subset_at(std::uint64_t number, std::uint64_t size, std::uint64_t all) {
  std::vector<std::uint64_t> set;
  for (; size > 0; --size) {
    do {
      --all;
    } while (subsets(all, size) > number);
    set.push_back(all);
    number -= subsets(all, size);
  }
  return set;
}

constexpr const char* no_map = "Ranks fail and no tensor is altered, so there are no rates by layer and bit.";

// The population is one for all arms. How gradients travel on a mesh does not matter to it.
void check_one_parallel(const Document& document, const std::vector<Parallel>& arms) {
  for (std::size_t i = 1; i < arms.size(); ++i) {
    Parallel alike = arms[i];
    if (alike.mesh && arms.front().mesh) alike.mesh->schedule = arms.front().mesh->schedule;
    if (alike == arms.front()) continue;
    fail(ErrorCode::bad_input,
         "{}: differs from that of arm '{}': every rank that fails must exist in every arm; use one campaign "
         "for each strategy and mesh",
         document.where(pointer_of_arm(i) + "/parallel"), name_of_arm(document, 0));
  }
}

std::string words_of(record::FailureMode how, const std::optional<record::Slowness>& slow) {
  switch (how) {
    case record::FailureMode::kill:
      return "killed with SIGKILL";
    case record::FailureMode::stop:
      return "stopped with SIGSTOP";
    case record::FailureMode::slow:
      return fmt::format("slowed down, {:g} times for {} steps", slow.value().factor, slow->steps);
    case record::FailureMode::exit:
      break;
  }
  return "ended with _exit(0)";
}

std::vector<FailureMode> ways_to_fail(const Document& document, const Json& value) {
  if (value.is_array()) return value.get<std::vector<FailureMode>>();
  const auto found = find_named<FailureMode>(value.get<std::string>());
  if (found) return {*found};
  fail(ErrorCode::bad_input, "{}: expected one of: {}; found {}", document.where("/strata/process/how"),
       list_names<FailureMode>(), value.dump());
}

bool lost_by(const record::Failure& failure, record::FailureMode how) {
  switch (how) {
    case record::FailureMode::kill:
      return failure.signal == SIGKILL;
    case record::FailureMode::stop:
      return failure.reason == record::FailureReason::hang;
    case record::FailureMode::slow:
      return false;
    case record::FailureMode::exit:
      break;
  }
  return failure.reason == record::FailureReason::exception;
}

}  // namespace

Json ProcessStrata::to_json() const {
  Json value = {{"phases", phases}};
  if (storms()) {
    value["every"] = every;
    value["how"] = how;
  } else {
    value["together"] = together;
    value["how"] = how.front();
  }
  if (slow) value["slow"] = record::to_json(*slow);
  if (steps) value["steps"] = design::to_json(*steps);
  if (points) value["points"] = record::to_json(*points);
  return {{"process", value}};
}

std::vector<record::Stratum> ProcessStrata::strata() const {
  std::vector<record::Stratum> list;
  for (const std::int64_t steps_between : every) {
    const std::string field = fmt::format("every_{}", steps_between);
    list.push_back({"process." + field, "process", field, record::unbounded_stratum});
  }
  if (storms()) return list;
  for (const TrainingPhase phase : phases)
    list.push_back({fmt::format("process.{}", name_of(phase)), "process", name_of(phase), 0});
  return list;
}

bool ProcessStrata::has(TrainingPhase phase) const {
  return std::ranges::find(phases, phase) != phases.end();
}

bool ProcessStrata::has(FailureMode mode) const { return std::ranges::find(how, mode) != how.end(); }

int ProcessStrata::failing() const { return has(TrainingPhase::recovery) ? std::max(2, together) : together; }

void ProcessStrata::check(const Document& document, const std::vector<Parallel>& arms,
                          const std::vector<RecoverySpec>& recoveries) const {
  refuse_key(document, "/runner", "only bitrift-train can lose ranks; remove the key, or strata.process");
  refuse_key(document, "/propagation",
             "follows altered bits, and ranks that fail alter none; remove the key");
  for (std::size_t i = 0; i < arms.size(); ++i) {
    refuse_key(document, pointer_of_arm(i) + "/scope",
               "says who loads an altered file, and ranks that fail alter none; remove the key");
  }
  check_one_parallel(document, arms);
  check_ways(document);
  if (storms()) check_storms(document);
  check_victims(document, arms.front().ranks, recoveries);
}

void ProcessStrata::check_ways(const Document& document) const {
  const std::string place = "/strata/process";
  if (has(FailureMode::slow) != slow.has_value()) {
    fail(ErrorCode::bad_input, "{}: {}", document.where(place + "/slow"),
         slow ? "no rank is slowed down; remove the key, or add slow to strata.process.how"
              : "how slow a rank gets, and for how many steps, as in {\"factor\": 3, \"steps\": 10}");
  }
  if (storms() || how.size() == 1) return;
  fail(ErrorCode::bad_input, "{}: one way to fail, or with 'every' several", document.where(place + "/how"));
}

void ProcessStrata::check_storms(const Document& document) const {
  const std::string place = "/strata/process";
  refuse_key(document, place + "/together", "in a storm one rank fails at a time; remove the key");
  for (std::size_t i = 0; i < phases.size(); ++i) {
    if (!record::is_between_steps(phases[i]) && phases[i] != TrainingPhase::recovery) continue;
    fail(ErrorCode::bad_input, "{}: with 'every', ranks fail in steps; remove the phase, or 'every'",
         document.where(fmt::format("{}/phases/{}", place, i)));
  }
  refuse_totals(document, every.size(), "storms");
  const Json::json_pointer connect("/worker/connect");
  if (has(FailureMode::stop) && document.value.value(connect, "local") == "network") {
    fail(ErrorCode::bad_input,
         "{}: the driver ends ranks that stop in a storm, and cannot see those on other machines; remove the "
         "key, or stop from strata.process.how",
         document.where(connect.to_string()));
  }
}

void ProcessStrata::check_victims(const Document& document, int ranks,
                                  const std::vector<RecoverySpec>& recoveries) const {
  if (together > ranks) {
    fail(ErrorCode::bad_input, "{}: the arms have {} rank(s), so {} cannot fail",
         document.where("/strata/process/together"), ranks, together);
  }
  const auto phase = std::ranges::find(phases, TrainingPhase::recovery);
  if (phase == phases.end()) return;
  const std::string place =
      document.where("/strata/process/phases/" + std::to_string(phase - phases.begin()));
  if (together > 1) {
    fail(ErrorCode::bad_input,
         "{}: in phase recovery two ranks fail, one after the other; remove 'together', or the phase", place);
  }
  if (ranks < 2) fail(ErrorCode::bad_input, "{}: two ranks fail in it, but the arms have one", place);
  if (has(FailureMode::slow))
    fail(ErrorCode::bad_input, "{}: a rank that is slow needs no recovery; remove the phase", place);
  for (std::size_t i = 0; i < recoveries.size(); ++i) {
    if (recoveries[i].kind != RecoveryKind::none) continue;
    fail(ErrorCode::bad_input,
         "{}: arm '{}' (recovery {}) ends with its first failure, and never reaches it; remove the arm, or "
         "the phase",
         place, name_of_arm(document, i), name_of(RecoveryKind::none));
  }
}

std::unique_ptr<const Population> ProcessStrata::population(std::size_t index, const Setting& setting) const {
  if (storms()) {
    const StepRange in_run = steps_of_trial(setting.parallel, setting.epochs);
    Storm storm{every.at(index), in_run, phases, how, slow.value_or(record::Slowness{})};
    return std::make_unique<StormPopulation>(std::move(storm), *points, setting.parallel);
  }
  return std::make_unique<ProcessPopulation>(phases.at(index), *this, setting.parallel, setting.epochs);
}

std::optional<FactNeeded> ProcessStrata::fact_needed() const {
  return FactNeeded{"kill_points", "/strata/process/points", "at which points ranks can fail",
                    "the points at which ranks can fail"};
}

std::optional<Json> ProcessStrata::fact() const {
  return points ? std::optional(record::to_json(*points)) : std::nullopt;
}

Strata ProcessStrata::with_fact(const Json& fact) const {
  ProcessStrata known = *this;
  known.points = record::kill_points_from_json(fact);
  return known;
}

std::optional<std::int64_t> ProcessStrata::steps_of_run(std::int64_t epochs) const {
  return points ? std::optional(points->steps_per_epoch * epochs) : std::nullopt;
}

StepRange ProcessStrata::steps_of_trial(const Parallel& parallel, std::int64_t epochs) const {
  if (!points) {
    fail(ErrorCode::bad_input, "how many points a phase has is not known before the campaign has begun");
  }
  if (points->stages.size() != static_cast<std::size_t>(parallel.stages)) {
    fail(ErrorCode::bad_input, "strata.process.points has {} stages, the arms have {}; restore campaign.json",
         points->stages.size(), parallel.stages);
  }
  return drawn_steps(steps, points->steps_per_epoch, epochs, "strata.process.steps");
}

std::vector<Canary> ProcessStrata::canaries(const RecoverySpec& recovery) const {
  std::vector<Canary> list;
  list.push_back({name_of(ProcessCanary::unreached), "a rank is to fail after the end of the run",
                  Required::bitwise_without_recovery, false, "a rank failed that was not to"});
  if (recovery.promises_golden()) {
    list.push_back({name_of(ProcessCanary::recovers), "a rank fails in the middle of the run",
                    Required::bitwise_after_recovery, true, "the rank that was to fail did not"});
  }
  list.push_back({name_of(ProcessCanary::no_recovery),
                  "a rank fails in the middle of the run, recovery switched off", Required::unrecovered, true,
                  "the rank that was to fail did not"});
  list.back().survives = false;
  return list;
}

void ProcessStrata::plant(const std::string& stratum, const Setting& setting, const RecoverySpec& recovery,
                          record::TrialSpec& run) const {
  const auto canary = parse_named<ProcessCanary>(stratum);
  run.recovery = canary == ProcessCanary::no_recovery ? RecoverySpec{} : recovery;
  ProcessFault fault;
  fault.rank = setting.parallel.ranks - 1;
  fault.phase = TrainingPhase::reduce;
  fault.step = canary_step(steps_of_run(setting.epochs).value(), canary != ProcessCanary::unreached);
  run.faults = std::vector{fault};
}

Sentences ProcessStrata::sentences(const std::optional<std::uint64_t>& size) const {
  std::vector<std::string> names;
  for (const TrainingPhase phase : phases) names.emplace_back(name_of(phase));
  if (storms()) return sentences_of_storms(in_words(names, "or"));
  Sentences said;
  said.faults[""] = fmt::format(
      "the failure of {} ({}) in phase {}, chosen uniformly from the {}combinations of ranks, {} and points",
      together == 1 ? "a rank" : fmt::format("{} ranks at once", together), words_of(how.front(), slow),
      in_words(names, "or"), size_text(size), steps_text(steps));
  said.rates = rate_of_uniform("failure", "combinations of ranks, steps and points");
  said.limits = {
      "The rates are those of ranks that fail at the points of training that the spec names. They say "
      "nothing "
      "about other points, other numbers of ranks at once, failures of a network, or altered bits."};
  if (steps && has(TrainingPhase::evaluate)) {
    said.limits.emplace_back(
        "In phase evaluate, ranks fail in the evaluation after any epoch, whatever steps are named.");
  }
  if (has(TrainingPhase::recovery)) {
    said.limits.emplace_back(
        "In phase recovery, a second rank fails while the failure of a first one is handled.");
  }
  said.no_map = no_map;
  said.numbers = false;
  return said;
}

Sentences ProcessStrata::sentences_of_storms(const std::string& in_phases) const {
  std::vector<std::string> ways;
  for (const FailureMode mode : how) ways.push_back(words_of(mode, slow));
  Sentences said;
  const std::vector<record::Stratum> all = strata();
  for (std::size_t i = 0; i < all.size(); ++i) {
    said.faults[all[i].name] = fmt::format(
        "a storm of failures: in each step, a rank fails with a probability of 1 in {} ({}), in phase {}; "
        "rank, phase, point and way to fail are chosen uniformly",
        every[i], in_words(ways, "or"), in_phases);
  }
  if (all.size() == 1) said.faults[""] = said.faults.begin()->second;
  said.rates = "Each rate is that of a run in the storm of its line.";
  said.limits = {
      "The rates are those of runs of the length that the spec gives. A longer run meets more failures. They "
      "say nothing about failures of whole machines or of a network, or about altered bits."};
  if (steps) said.limits.push_back(fmt::format("Ranks fail in {} alone.", steps_text(steps)));
  said.no_map = no_map;
  said.numbers = false;
  return said;
}

std::string ProcessStrata::no_rates_by(const std::string&) const {
  return fmt::format("in this campaign ranks fail and no tensor is altered; group by field, which is the {}",
                     storms() ? "storm" : "phase");
}

Strata process_strata_from(const Document& document) {
  const Json& value = document.value.at("strata").at("process");
  ProcessStrata strata;
  strata.phases = value.at("phases").get<std::vector<TrainingPhase>>();
  strata.steps = step_range_from(document, "/strata/process/steps");
  strata.together = value.value("together", strata.together);
  if (value.contains("every")) strata.every = value["every"].get<std::vector<std::int64_t>>();
  if (value.contains("how")) strata.how = ways_to_fail(document, value["how"]);
  if (value.contains("slow")) strata.slow = value["slow"].get<record::Slowness>();
  if (value.contains("points")) strata.points = record::kill_points_from_json(value["points"]);
  return strata;
}

ProcessPopulation::ProcessPopulation(TrainingPhase phase, const ProcessStrata& strata,
                                     const record::Parallel& parallel, std::int64_t epochs)
    : phase_(phase), how_(strata.how.front()), slowness_(strata.slow), together_(strata.together) {
  const StepRange range = strata.steps_of_trial(parallel, epochs);
  first_step_ = range.first;
  steps_ = range.count();
  if (phase == TrainingPhase::evaluate) {
    first_step_ = stride_ = strata.points->steps_per_epoch;
    steps_ = static_cast<std::uint64_t>(epochs);
  }
  find_victims(strata, parallel);
  if (size() == 0 || capped_product(places_, steps_) > most_members) {
    fail(ErrorCode::bad_input, "{}",
         size() == 0
             ? "no rank has a point in this phase; take it out of strata.process.phases"
             : "it holds more than 2^47 sets of ranks, steps and points; lower strata.process.together");
  }
}

void ProcessPopulation::find_victims(const ProcessStrata& strata, const record::Parallel& parallel) {
  for (int rank = 0; rank < parallel.ranks; ++rank) {
    const std::int64_t points = strata.points->of(rank % parallel.stages, phase_);
    if (points > 0) victims_.push_back({rank, static_cast<std::uint64_t>(points)});
  }
  std::stable_sort(victims_.begin(), victims_.end(),
                   [](const Victim& a, const Victim& b) { return a.points < b.points; });
  const std::uint64_t ranks = victims_.size();
  if (phase_ == TrainingPhase::recovery) {
    places_ = ranks < 2 ? 0 : ranks * (ranks - 1) * victims_.front().points;
    return;
  }
  for (std::uint64_t last = 0; last < ranks; ++last) {
    before_.push_back(places_);
    const auto others = static_cast<std::uint64_t>(together_ - 1);
    places_ += capped_product(subsets(last, others), victims_[last].points);
    places_ = std::min(places_, most_members + 1);
  }
}

std::vector<ProcessFault> ProcessPopulation::at(std::uint64_t index) const {
  if (index >= size()) fail(ErrorCode::internal, "member {} of {} processes that fail", index, size());
  const std::int64_t step = first_step_ + static_cast<std::int64_t>(index % steps_) * stride_;
  const std::uint64_t place = index / steps_;
  if (phase_ == TrainingPhase::recovery) return pair_at(place, step);
  const auto last =
      static_cast<std::uint64_t>(std::upper_bound(before_.begin(), before_.end(), place) - before_.begin()) -
      1;
  const std::uint64_t rest = place - before_[last];
  const auto point = static_cast<std::int64_t>(rest % victims_[last].points);
  std::vector<std::uint64_t> set =
      subset_at(rest / victims_[last].points, static_cast<std::uint64_t>(together_ - 1), last);
  set.push_back(last);
  std::vector<ProcessFault> faults;
  faults.reserve(set.size());
  for (const std::uint64_t victim : set)
    faults.push_back({victims_[victim].rank, step, phase_, point, how_, slowness_});
  std::sort(faults.begin(), faults.end(),
            [](const ProcessFault& a, const ProcessFault& b) { return a.rank < b.rank; });
  return faults;
}

std::vector<ProcessFault> ProcessPopulation::pair_at(std::uint64_t place, std::int64_t step) const {
  const std::uint64_t points = victims_.front().points;
  const std::uint64_t pair = place / points;
  const std::uint64_t first = pair / (victims_.size() - 1);
  std::uint64_t second = pair % (victims_.size() - 1);
  if (second >= first) ++second;
  return {{victims_[first].rank, step, TrainingPhase::reduce, 0, how_},
          {victims_[second].rank, step, phase_, static_cast<std::int64_t>(place % points), how_}};
}

bool landed(const std::vector<ProcessFault>& faults, const RunEnd& end) {
  if (end.failure) {
    return std::ranges::any_of(faults,
                               [&](const ProcessFault& fault) { return lost_by(*end.failure, fault.how); });
  }
  const std::vector<record::Recovery>& recoveries = end.result->recoveries;
  std::map<int, int> lost, to_lose;  // by rank: how often
  for (const record::Recovery& recovery : recoveries) {
    for (const int rank : recovery.failed) ++lost[rank];
  }
  for (const ProcessFault& fault : faults) {
    if (!fault.slowness) ++to_lose[fault.rank];
  }
  if (end.result->status != record::RunStatus::unrecovered) {
    return std::ranges::all_of(faults, [&](const ProcessFault& fault) {
      return fault.slowness ? fault.step <= end.result->steps : lost[fault.rank] >= to_lose[fault.rank];
    });
  }
  // A last recovery that found nobody alive names no rank.
  const bool all = !recoveries.empty() && recoveries.back().failed.empty();
  return all || std::ranges::any_of(to_lose, [&](const auto& one) { return lost.contains(one.first); });
}

}  // namespace bitrift::design
