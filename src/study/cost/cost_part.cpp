#include "study/cost/cost_part.h"

#include <algorithm>
#include <cmath>
#include <string>

#include <unistd.h>

#include "campaign/launch/launch.h"
#include "campaign/plan/ends.h"
#include "core/permutation.h"
#include "core/philox.h"
#include "study/part/saved_files.h"
#include "study/part/saver.h"
#include "study/part/trainer_run.h"

namespace bitrift::study {
namespace {

constexpr FileKind ours{Format::hdf5, FileWriter::bitrift, ".h5", "hdf5"};
// Measurements of a training, or of a library in a row; the row of a case has their medians. Runs without
// saves take as many steps, so that parts which a run does once, such as its first step, have the same weight
// in all.
constexpr std::int64_t saves_of_a_run = 6;

void add_ours(const StudySpec& spec, std::vector<TimedKind>& cases) {
  using record::SaveMode;
  for (std::size_t model = 0; model <= spec.cost.models.size(); ++model) {
    for (const int ranks : spec.cost.ranks) {
      cases.push_back({ours, {SaveMode::sync, SaveRoute::gather, ranks, model}});
      if (ranks > 1) cases.push_back({ours, {SaveMode::sync, SaveRoute::shared, ranks, model}});
    }
  }
  cases.push_back({ours, {}});
  cases.push_back({ours, {SaveMode::async}});
  for (const int ranks : spec.cost.ranks) {
    for (const bool shards : spec.cost.shard_optimizer) {
      if (ranks == 1) continue;
      for (const auto& [mode, route] :
           {std::pair(SaveMode::sync, SaveRoute::gather), std::pair(SaveMode::sync, SaveRoute::shared),
            std::pair(SaveMode::async, SaveRoute::gather)})
        cases.push_back({ours, {mode, route, ranks, 0, shards}});
    }
  }
}

constexpr FileKind in_parallel{Format::hdf5_parallel, FileWriter::native, ".h5"};
constexpr int saves_in_parallel = 3;  // of a run

std::filesystem::path parallel_program(const std::filesystem::path& trainer) {
  return trainer.parent_path() / "bitrift-hdf5-parallel";
}

void add_parallel(const StudySpec& spec, std::vector<TimedKind>& cases) {
  for (const int ranks : spec.cost.ranks) {
    if (ranks == 1) continue;
    for (const SaveRoute route : {SaveRoute::collective, SaveRoute::independent})
      cases.push_back({in_parallel, {record::SaveMode::sync, route, ranks}});
  }
}

}  // namespace

std::vector<FileKind> timed_kinds(const StudySpec& spec) {
  std::vector<FileKind> kinds = spec.kinds();
  const bool asked =
      std::find(kinds.begin(), kinds.end(), FileKind{Format::hdf5, FileWriter::native, ""}) != kinds.end();
  const auto& ranks = spec.cost.ranks;
  if (asked && std::any_of(ranks.begin(), ranks.end(), [](int r) { return r > 1; }))
    kinds.push_back(in_parallel);
  return kinds;
}

std::map<std::string, bool> installed_kinds(NativeReader& reader, const std::filesystem::path& trainer) {
  std::map<std::string, bool> installed = reader.facts().installed;
  installed[name_of(Format::hdf5_parallel)] = std::filesystem::exists(parallel_program(trainer));
  return installed;
}

std::vector<TimedKind> cost_cases(const StudySpec& spec, const std::map<std::string, bool>& installed) {
  std::vector<TimedKind> cases;
  const auto add = [&](const FileKind& kind, record::SaveMode mode) {
    cases.push_back({kind, {.mode = mode}});
  };
  const FileKind raw{Format::raw, FileWriter::native, ".raw"};
  add(raw, record::SaveMode::sync);
  add(raw, record::SaveMode::async);
  for (const FileKind& kind : timed_kinds(spec)) {
    if (kind == ours) {
      add_ours(spec, cases);
    } else if (kind == in_parallel) {
      if (installed.at(name_of(kind.format))) add_parallel(spec, cases);
    } else if (kind.writer == FileWriter::bitrift || installed.at(name_of(kind.format))) {
      add(kind, record::SaveMode::sync);
      if (kind.format == Format::dcp) add(kind, record::SaveMode::async);
    }
  }
  return cases;
}

Cost::Cost(const StudySpec& spec, NativeReader& reader, StudyJournal& journal, campaign::Progress& progress,
           std::filesystem::path trainer, std::vector<std::filesystem::path> bases,
           std::filesystem::path folder)
    : spec_(spec),
      reader_(reader),
      journal_(journal),
      progress_(progress),
      trainer_(std::move(trainer)),
      bases_(std::move(bases)),
      folder_(std::move(folder)) {}

void Cost::run() {
  const std::vector<TimedKind> cases = cost_cases(spec_, installed_kinds(reader_, trainer_));
  for (std::uint64_t turn = 0; turn < spec_.cost.turns; ++turn) {
    const Permutation order(cases.size(),
                            derive_key(spec_.cost.seed, fmt::format("study.cost/turn/{}", turn)));
    for (std::uint64_t i = 0; i < cases.size(); ++i) {
      const TimedKind& timed = cases[order(i)];
      if (journal_.find(cost_id(timed.kind, timed.what, turn)) != nullptr) continue;
      std::filesystem::create_directories(folder_);
      CostResult result = timed.kind == in_parallel                 ? time_parallel(timed)
                          : timed.kind.writer == FileWriter::native ? time_native(timed)
                                                                    : time_bitrift(timed);
      std::filesystem::remove_all(folder_);
      result.what = timed.what;
      result.turn = turn;
      journal_.append({timed.kind.format, timed.kind.writer, result});
      progress_.advance();
    }
  }
}

void Cost::rest() const {
  ::sync();
  pause(spec_.cost.pause_seconds);
}

CostResult Cost::time_native(const TimedKind& timed) {
  const auto path = folder_ / timed.kind.file_name();
  rest();
  const SaveTimes times =
      reader_.time(timed.kind.format, path,
                   {timed.what.mode == record::SaveMode::async, saves_of_a_run, spec_.cost.between_seconds});
  CostResult result;
  result.block = times.block;
  result.persist = times.persist;
  result.processor = times.processor;
  result.bytes = saved_bytes(path);
  return result;
}

CostResult Cost::time_parallel(const TimedKind& timed) {
  const auto path = folder_ / timed.kind.file_name();
  const Command command{
      {parallel_program(trainer_).string(), bases_.front().string(), "-o", path.string(), "--transfer",
       name_of(timed.what.route), "--ranks", std::to_string(timed.what.ranks), "--saves",
       std::to_string(saves_in_parallel), "--pause", fmt::format("{}", spec_.cost.pause_seconds), "--json"},
      {},
      folder_ / "parallel.log"};
  const ExitStatus status = run_to_end(command);
  // The program has compared the file with the base.
  if (status.code == 1) throw campaign::Misbehaviour(campaign::log_tail(command.output));
  must_succeed(status, command, "a save in parallel");
  const record::Json printed = printed_json(command.output);
  CostResult result;
  result.block = printed.at("block_seconds").at("median").get<double>();
  result.library = printed.at("library").get<std::string>();
  result.bytes = saved_bytes(path);
  return result;
}

Command Cost::resume(const CostCase& what, const std::vector<std::string>& options) const {
  const std::filesystem::path& base = bases_.at(what.model);
  if (what.shard_optimizer)
    return resume_as_replicas(trainer_, base, what.ranks, *what.shard_optimizer, options);
  return resume_in_stages(trainer_, base, what.ranks, options);
}

double Cost::step_seconds(const CostCase& what) {
  double& step = steps_[{what.ranks, what.model, what.shard_optimizer}];
  if (step == 0) {
    const TrainerRun run = run_to_json(resume(what, {"--steps", "5"}), folder_ / "probe.log");
    step = run.result.at("seconds").get<double>() / run.result.at("steps").get<double>();
  }
  return step;
}

CostResult Cost::time_bitrift(const TimedKind& timed) {
  const CostCase& what = timed.what;
  const auto every = std::max<std::int64_t>(1, std::llround(spec_.cost.between_seconds / step_seconds(what)));
  const auto path = folder_ / timed.kind.file_name();
  std::vector<std::string> options = {"--steps", std::to_string(every * saves_of_a_run + 1)};
  if (what.mode) {
    for (const std::string& word :
         {std::string("--format"), std::string(timed.kind.option), std::string("-o"), path.string(),
          std::string("--checkpoint-every"), std::to_string(every), std::string("--checkpoint-mode"),
          std::string(name_of(*what.mode)), std::string("--checkpoint-writer"),
          std::string(name_of(what.route))})
      options.push_back(word);
  }
  rest();
  const TrainerRun run = run_to_json(resume(what, options), folder_ / "trainer.log");
  CostResult result;
  result.load = run.result.at("load_seconds").get<double>();
  result.step = run.result.at("seconds").get<double>() / run.result.at("steps").get<double>();
  result.every = every;
  if (!what.mode) return result;
  const record::Json& times = run.result.at("checkpoint_seconds");
  result.block = times.at("blocking").at("median").get<double>();
  if (times.contains("persist")) result.persist = times["persist"].at("median").get<double>();
  result.bytes = saved_bytes(path);
  return result;
}

}  // namespace bitrift::study
