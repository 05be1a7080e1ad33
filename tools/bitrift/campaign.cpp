#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "campaign/commands/merge.h"
#include "campaign/commands/replay_trial.h"
#include "campaign/commands/run_campaign.h"
#include "campaign/commands/status.h"
#include "campaign/folder/folder.h"
#include "campaign/journal/journal.h"
#include "campaign/plan/ends.h"
#include "commands.h"
#include "core/error.h"
#include "core/log.h"
#include "options/whole_number.h"
#include "report.h"

namespace bitrift::cli {
namespace {

using record::Json;

struct RunArguments {
  campaign::RunOptions options;
  std::string spec, folder;
  int workers = 0;
  std::string shard, work_dir;
  double max_hours = 0, wait_hours = 0;
  std::optional<double> stand_in_after;
  bool json = false;
};

std::vector<std::string> command_of(const RunArguments& arguments) {
  std::vector<std::string> command = {"bitrift", "campaign", "run", arguments.spec, "-o", arguments.folder};
  if (arguments.workers != 0) command.insert(command.end(), {"--workers", std::to_string(arguments.workers)});
  if (arguments.max_hours > 0) {
    command.insert(command.end(), {"--max-hours", fmt::format("{}", arguments.max_hours)});
  }
  if (!arguments.shard.empty()) command.insert(command.end(), {"--shard", arguments.shard});
  if (arguments.wait_hours > 0) {
    command.insert(command.end(), {"--wait-hours", fmt::format("{}", arguments.wait_hours)});
  }
  if (arguments.stand_in_after) {
    command.insert(command.end(), {"--stand-in-after", fmt::format("{}", *arguments.stand_in_after)});
  }
  if (!arguments.work_dir.empty()) command.insert(command.end(), {"--work-dir", arguments.work_dir});
  if (arguments.options.extend) command.emplace_back("--extend");
  if (arguments.options.audit) command.emplace_back("--audit");
  if (arguments.options.ignore_space) command.emplace_back("--ignore-space");
  for (const std::string& pair : arguments.options.overrides) command.insert(command.end(), {"--set", pair});
  for (const std::string& drill : arguments.options.drills) command.insert(command.end(), {"--drill", drill});
  return command;
}

int run_spec(RunArguments arguments) {
  arguments.options.spec = arguments.spec;
  arguments.options.folder = arguments.folder;
  if (arguments.workers != 0) arguments.options.workers = arguments.workers;
  if (arguments.max_hours > 0) arguments.options.max_hours = arguments.max_hours;
  if (!arguments.shard.empty()) arguments.options.shard = campaign::parse_shard(arguments.shard);
  campaign::Patience& patience = arguments.options.patience;
  if (arguments.wait_hours > 0) patience.wait_hours = arguments.wait_hours;
  if (patience.wait_hours && !arguments.options.shard) {
    fail(ErrorCode::bad_input, "--wait-hours limits the wait for other shards: give --shard too");
  }
  if (arguments.stand_in_after) {
    if (!arguments.options.shard)
      fail(ErrorCode::bad_input, "--stand-in-after is about other shards: give --shard too");
    patience.stand_in_after = std::chrono::duration<double>(*arguments.stand_in_after);
  }
  if (!arguments.work_dir.empty()) arguments.options.work_dir = arguments.work_dir;
  arguments.options.command = command_of(arguments);
  campaign::RunReport report;
  {
    campaign::Progress progress;
    try {
      report = campaign::run_campaign(arguments.options, progress);
    } catch (const campaign::Interrupted& end) {
      progress.note(fmt::format("bitrift: {}", end.what()));
      return end.exit_code();
    }
  }
  if (!report.problems.empty()) {
    for (const std::string& problem : report.problems) fmt::print(stderr, "bitrift: {}\n", problem);
    fmt::print(stderr, "bitrift: {}: controls or canaries misbehave, so no verdict can be trusted\n",
               arguments.folder);
    if (!report.remedy.empty()) fmt::print(stderr, "bitrift: this says what to change: {}\n", report.remedy);
    return 1;
  }
  if (!report.unfinished.empty()) {
    fmt::print(stderr, "bitrift: {}: {}\n", arguments.folder, report.unfinished);
    if (!report.joined) {
      fmt::print(
          stderr,
          "bitrift: {}: run `bitrift campaign merge {}` to merge what all shards have written so far\n",
          arguments.folder, arguments.folder);
    }
    if (!report.joined || !report.judged) return 0;
  }
  if (!arguments.options.drills.empty()) {
    fmt::print(stderr, "bitrift: this campaign was a drill: {}\n", fmt::join(arguments.options.drills, ", "));
  }
  const int code = report_campaign(arguments.folder, {.json = arguments.json}, arguments.options.command);
  if (code == 0 && !arguments.json) {
    const campaign::Layout layout{arguments.folder};
    fmt::print("\njournal    {}\nsummary    {}\nincidents  {} ({} in this start)\n",
               layout.journal().string(), layout.summary().string(), layout.incidents().string(),
               report.incidents);
  }
  return code;
}

// What was asked for and how far the last decision found it.
void print_rounds(const record::Sampling& sampling, const record::Round& last) {
  fmt::print("{}, asked: {} within +-{:g} points\n",
             last.stop ? fmt::format("stopped after round {}: {}", last.number - 1, stop_text(*last.stop))
                       : fmt::format("round {}", last.number),
             name_of(sampling.target), 100 * sampling.half_width);
  for (const record::Reached& one : last.reached) {
    fmt::print("  {:<18} {:<7} +-{:.2f} points{}{}\n", one.arm, record::outcome_key(one.outcome),
               100 * one.half_width, one.stratum.empty() ? "" : " in ", one.stratum);
  }
}

int status(const std::string& folder, bool json) {
  const campaign::Status status = campaign::read_status(folder);
  if (json) {
    fmt::print("{}\n", to_json(status).dump(2));
    return 0;
  }
  fmt::print("{}: {}, {}\n", status.name, status.complete() ? "complete" : "incomplete",
             status.running ? "running" : "not running");
  if (!status.drills.empty()) fmt::print("drills: {}\n", fmt::join(status.drills, ", "));
  if (!status.has_base) fmt::print("the base checkpoint has not been created yet\n");
  for (const campaign::ShardStatus& shard : status.shards) {
    fmt::print("shard {:<14} runs {}/{}, starts {}, {}\n", shard.shard, shard.done, shard.planned,
               shard.starts, shard.state);
  }
  for (const campaign::ArmStatus& arm : status.arms) {
    fmt::print("{:<20} controls, clean runs, canaries {}/{}, trials {}/{}\n", arm.arm, arm.prepared,
               arm.to_prepare, arm.trials, arm.planned);
  }
  if (status.sampling && !status.rounds.empty()) print_rounds(*status.sampling, status.rounds.back());
  fmt::print("incidents: {}, retracted rows: {}\n", status.incidents, status.retracted);
  return 0;
}

// How the row of a trial is judged; clean runs have no verdict.
void print_verdict(const campaign::Layout& layout, const record::TrialRecord& row) {
  const auto rows = effective_rows(layout);
  const design::CampaignSpec spec = campaign::read_stored_campaign(layout).spec;
  const analyze::Trust trust = analyze::trust_of(rows, analyze::judging_of(spec));
  if (!trust.problems.empty()) return;
  for (const analyze::TrialLine& line : analyze::trials_view(rows, trust, {.arms = {row.id.arm}})) {
    if (line.row->id == row.id) fmt::print("{}", trial_text(line));
  }
}

int replay(const std::string& folder, const std::string& id, const std::string& trace, bool json) {
  campaign::Replay replay;
  try {
    using Path = std::optional<std::filesystem::path>;
    replay = campaign::replay_run(folder, id, trace.empty() ? Path() : Path(trace));
  } catch (const campaign::Misbehaviour& problem) {
    fmt::print(stderr, "bitrift: {}\n", problem.what());
    return 1;
  } catch (const campaign::Interrupted& end) {
    fmt::print(stderr, "bitrift: {}\n", end.what());
    return end.exit_code();
  }
  if (json) {
    const Json difference = replay.difference ? Json(*replay.difference) : Json();
    fmt::print(
        "{}\n",
        Json{{"row", to_json(replay.row)}, {"again", to_json(replay.again)}, {"difference", difference}}.dump(
            2));
  } else if (replay.difference) {
    fmt::print("{} (journal first, replay second){}\n", *replay.difference, replay.hint);
  } else {
    const std::string end =
        replay.row.failure ? name_of(replay.row.failure->reason) : name_of(replay.row.result->status);
    fmt::print("{}: same as the journal's row ({}{})\n", id, end,
               replay.row.result ? ", final digest " + replay.row.result->final_digest : "");
    if (replay.row.kind == record::TrialKind::trial) print_verdict(campaign::Layout{folder}, replay.row);
  }
  if (!replay.no_trace.empty()) fmt::print(stderr, "bitrift: no trace: {}\n", replay.no_trace);
  if (!trace.empty() && replay.no_trace.empty() && !json) fmt::print("trace {}\n", trace);
  return replay.difference ? 1 : 0;
}

std::vector<record::TrialRecord> rows_at(const std::filesystem::path& place) {
  if (!std::filesystem::is_directory(place)) return campaign::read_journal(place).effective();
  const campaign::Layout layout{place};
  auto rows = campaign::read_journal(layout.journal()).effective();
  if (std::filesystem::exists(layout.identity())) campaign::warn_unless_merged(layout);
  return rows;
}

int diff_journals(const std::string& first, const std::string& second) {
  const auto one = rows_at(first);
  const auto difference = campaign::journal_difference(one, rows_at(second));
  if (difference) {
    fmt::print("{}\n", *difference);
    return 1;
  }
  fmt::print("equal: {} rows\n", one.size());
  return 0;
}

void add_run(CLI::App& parent, ExitCode& exit_code) {
  const CLI::Validator above_zero(
      [](const std::string& text) {
        return std::strtod(text.c_str(), nullptr) > 0 ? std::string()
                                                      : "expected hours above 0, found " + text;
      },
      "HOURS");
  const auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = parent.add_subcommand("run", "Start a campaign, or resume it");
  command->add_option("SPEC", arguments->spec, "campaign spec (JSON)")->required();
  command->add_option("-o,--output", arguments->folder, "campaign folder to create or resume")->required();
  command
      ->add_option("--workers", arguments->workers,
                   "number of worker groups that run in parallel (default: as many as the cores allow)")
      ->check(whole_number(1, 65536))
      ->type_name("N");
  command
      ->add_option("--max-hours", arguments->max_hours,
                   "stop after this many hours, even mid-round; run the same command again to resume")
      ->check(above_zero);
  command
      ->add_option(
          "--shard", arguments->shard,
          "I/N: run part I (from 1) of N, in a folder shared by all parts; slurm: take I and N from the "
          "Slurm job array")
      ->type_name("I/N|slurm");
  command
      ->add_option("--wait-hours", arguments->wait_hours,
                   "stop waiting for another shard after it has written nothing for this many hours "
                   "(default: wait forever)")
      ->check(above_zero);
  command
      ->add_option("--stand-in-after", arguments->stand_in_after,
                   "also run the parts of shards that have had no driver for this many seconds (default: 30)")
      ->check(CLI::Range(0.0, 1e9))
      ->type_name("SECONDS");
  command->add_option("--work-dir", arguments->work_dir,
                      "folder for the workers' copies of the base (default: in memory if they fit, "
                      "else in the campaign folder)");
  command->add_flag(
      "--audit", arguments->options.audit,
      "First audit whether a resume of the PyTorch script equals an uninterrupted training (docs/audit.md)");
  command->add_flag(
      "--extend", arguments->options.extend,
      "accept a spec that adds draws, strata or arms to that of the folder; finished trials are "
      "kept");
  command->add_flag("--ignore-space", arguments->options.ignore_space,
                    "start even if the disk space looks insufficient");
  command
      ->add_option("--set", arguments->options.overrides, "KEY=VALUE: override a key of the spec; repeatable")
      ->allow_extra_args(false);
  command
      ->add_option("--drill", arguments->options.drills,
                   "break the harness on purpose, to test it: flip-nothing, ignore-file, forget-state, or "
                   "KIND@TRIAL, where KIND is "
                   "abort, segfault, raise, hang or leak, and TRIAL is ARM/STRATUM/DRAW; repeatable")
      ->allow_extra_args(false);
  command->add_flag("--json", arguments->json, "print the summary as JSON");
  command->footer(
      "Examples:\n"
      "  bitrift campaign run campaigns/quickstart.json -o results/quickstart\n"
      "  bitrift campaign run campaigns/quickstart.json -o results/quickstart \\\n"
      "      --set trials_per_stratum=120 --extend\n\n" +
      std::string(checking_exit_codes));
  command->callback([arguments, &exit_code] { exit_code.value = run_spec(*arguments); });
}

struct PlaceArguments {
  std::string first, second;
  std::string trace;
  bool json = false;
};

void add_status(CLI::App& parent, ExitCode& exit_code) {
  const auto arguments = std::make_shared<PlaceArguments>();
  CLI::App* command = parent.add_subcommand("status", "Show progress: completed and remaining runs");
  command->add_option("DIR", arguments->first, "campaign folder")->required();
  command->add_flag("--json", arguments->json, "print JSON");
  command->footer("Example:\n  bitrift campaign status results/quickstart\n\n" + std::string(exit_codes));
  command->callback([arguments, &exit_code] { exit_code.value = status(arguments->first, arguments->json); });
}

void add_replay(CLI::App& parent, ExitCode& exit_code) {
  const auto arguments = std::make_shared<PlaceArguments>();
  CLI::App* command =
      parent.add_subcommand("replay", "Repeat one trial, and compare it with its row in the journal");
  command->add_option("DIR", arguments->first, "campaign folder")->required();
  command->add_option("ID", arguments->second, "trial, as ARM/STRATUM/DRAW (see bitrift campaign list)")
      ->required();
  command->add_option(
      "--trace", arguments->trace,
      "run it once more in a separate process, and write every step to this file (JSON Lines)");
  command->add_flag("--json", arguments->json, "print both rows as JSON");
  command->footer(
      "Example:\n  bitrift campaign replay results/quickstart serial/weight.exponent/0\n\n"
      "Exit codes: 0 same as the journal's row, 1 different, 2 usage or input error, "
      "3 internal error in bitrift");
  command->callback([arguments, &exit_code] {
    exit_code.value = replay(arguments->first, arguments->second, arguments->trace, arguments->json);
  });
}

void add_journal_diff(CLI::App& parent, ExitCode& exit_code) {
  const auto arguments = std::make_shared<PlaceArguments>();
  CLI::App* command = parent.add_subcommand(
      "diff", "Find the first difference between two journals, except in volatile fields such as times");
  command->add_option("A", arguments->first, "campaign folder, or a journal")->required();
  command->add_option("B", arguments->second, "campaign folder, or a journal")->required();
  command->footer(
      "Example:\n  bitrift campaign diff results/quickstart results/again\n\n"
      "Exit codes: 0 equal except for volatile fields, 1 different, 2 usage or input error, "
      "3 internal error in bitrift");
  command->callback(
      [arguments, &exit_code] { exit_code.value = diff_journals(arguments->first, arguments->second); });
}

}  // namespace

void add_campaign(CLI::App& app, ExitCode& exit_code) {
  CLI::App* command = app.add_subcommand("campaign", "Run a campaign and inspect it");
  command->require_subcommand(1);
  add_run(*command, exit_code);
  add_status(*command, exit_code);
  add_list(*command, exit_code);
  add_show(*command, exit_code);
  add_replay(*command, exit_code);
  add_journal_diff(*command, exit_code);
  add_merge(*command, exit_code);
}

}  // namespace bitrift::cli
