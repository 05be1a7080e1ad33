#include "checkpoint_study.h"

#include <cstdio>

#include <fmt/format.h>

#include "campaign/plan/ends.h"
#include "options/one_of.h"
#include "study/run_study.h"
#include "study/state/state_summary.h"
#include "study/study_table.h"

namespace bitrift::cli {

CLI::App* add_checkpoint_study(CLI::App& app, StudyArguments& arguments, const std::string& footer) {
  CLI::App* command = app.add_subcommand(
      "checkpoint-study",
      "Write one checkpoint in many formats, and measure their sizes, whether two saves are equal, what "
      "their "
      "own readers do with flipped bits, what flips that they do not notice do to the training, what is left "
      "when a save is killed, which state a training needs, "
      "how "
      "long saves take, and how much time is useful when a training is killed again and again "
      "(docs/checkpoint-cost.md)");
  command->add_option("SPEC", arguments.spec, "Spec of the study (JSON)")->required();
  command
      ->add_option("-o,--output", arguments.folder,
                   "Folder for files, rows and summary; the same command resumes a study there")
      ->required();
  command->add_flag("--json", arguments.json, "Print the summary as JSON");
  command
      ->add_option("--drill", arguments.drill,
                   "read-original or misread: make the readers misbehave, to show that the canaries catch it")
      ->check(one_of<study::StudyDrill>());
  command->footer(footer);
  return command;
}

int checkpoint_study(const StudyArguments& arguments) {
  study::StudyOptions options{arguments.spec, arguments.folder, {}, arguments.command};
  if (!arguments.drill.empty()) options.drill = parse_named<study::StudyDrill>(arguments.drill);
  study::StudyReport report;
  {
    campaign::Progress progress;
    try {
      report = study::run_study(options, progress);
    } catch (const campaign::Interrupted& end) {
      progress.note(fmt::format("bitrift-train: {}", end.what()));
      return end.exit_code();
    } catch (const campaign::Misbehaviour& problem) {
      progress.note(fmt::format("bitrift-train: {}", problem.what()));
      progress.note(fmt::format("bitrift-train: {}: canaries misbehave, so no outcome can be trusted",
                                arguments.folder));
      return 1;
    }
  }
  if (arguments.json) {
    fmt::print("{}\n", report.document.dump(2));
    return 0;
  }
  fmt::print("{}{}{}{}{}{}\nrows       {}\nsummary    {}\n", study::study_table(report.spec, report.kinds),
             study::replays_table(report.spec, report.replays), study::kills_table(report.kills),
             study::states_table(report.states), study::cost_table(report.cost),
             study::policy_table(report.spec, report.policy), report.rows.string(), report.summary.string());
  return 0;
}

}  // namespace bitrift::cli
