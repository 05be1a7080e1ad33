#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "commands.h"
#include "core/error.h"
#include "core/log.h"
#include "output.h"
#include "report.h"

namespace bitrift::cli {
namespace {

struct AnalyzeOptions {
  std::string folder;
  ReportOptions report;
  bool propagation = false;
  std::string interval = "anytime";
  int rule = 2;
  std::size_t horizon = 0;
};

bool has(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

int analyze_propagation(const AnalyzeOptions& options) {
  const ReportOptions& report = options.report;
  for (const std::string& name : report.by) {
    if (name == "tensor") continue;
    fail(ErrorCode::bad_input, "--by {}: with --propagation only 'tensor' (where the fault was planted)",
         name);
  }
  return report_propagation(options.folder, !report.by.empty(), report.json, command_line());
}

int analyze_folder(AnalyzeOptions& options) {
  if (options.propagation) return analyze_propagation(options);
  options.report.rates.interval = analyze::interval_kind(options.interval);
  if (options.rule == 1) options.report.rule = analyze::Rule::limits;
  if (options.horizon > 0) options.report.horizon = options.horizon;
  const auto& by = options.report.by;
  if (!by.empty() && !has(by, "strategy")) {
    spdlog::info("--by strategy is added: every fault runs in every arm, so arms cannot be pooled");
  }
  return report_campaign(options.folder, options.report, command_line());
}

void add_judging(CLI::App& command, AnalyzeOptions& options) {
  command
      .add_option("--horizon", options.horizon,
                  "judge at this evaluation after the resume, the first being 1 (default: the last)")
      ->check(CLI::PositiveNumber)
      ->type_name("N");
  command
      .add_flag("--horizons", options.report.horizons,
                "print instead the outcomes at every evaluation, and how many are still moving")
      ->excludes("--horizon")
      ->excludes("--view");
  command
      .add_option("--metrics", options.report.metrics,
                  "metrics that count as harm: test_accuracy, test_capped_loss, test_loss, train_accuracy, "
                  "train_loss; separated by commas (default: the campaign's)")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--rule", options.rule,
                  "2: rank among the clean runs and comparison with the golden run; 1: the limits of earlier "
                  "versions (default: 2)")
      ->check(CLI::IsMember({1, 2}));
}

}  // namespace

void add_analyze(CLI::App& app, ExitCode& exit_code) {
  const auto options = std::make_shared<AnalyzeOptions>();
  CLI::App* command =
      app.add_subcommand("analyze", "Print a campaign's rates with intervals and write DIR/summary.json");
  command->add_option("DIR", options->folder, "folder of a campaign")->required();
  command
      ->add_option("--by", options->report.by,
                   "one line per value of: strategy, base, role, field, stratum; may be repeated (default: "
                   "strategy, field)")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--interval", options->interval,
          "which interval is shown: anytime holds at every look; wilson and clopper_pearson are for one "
          "look at a number of trials fixed in advance (default: anytime)")
      ->check(CLI::IsMember({"anytime", "wilson", "clopper_pearson"}));
  command->add_flag("--simultaneous", options->report.rates.simultaneous,
                    "wider intervals, which hold all together instead of each alone");
  command->add_flag("--effects", options->report.rates.effects,
                    "print too how many trials lose more than 0.1 to 10 points of test accuracy");
  command
      ->add_option(
          "--view", options->report.view,
          "print the trials otherwise: jpdc2024 in the words of a published study (RWC, NaN, AccR, TF; "
          "accuracy mean, deviation, CV); metrics: how many each metric alone would call SDC")
      ->check(CLI::IsMember({"jpdc2024", "metrics"}));
  add_judging(*command, *options);
  command
      ->add_flag("--propagation", options->propagation,
                 "print instead which tensors faults reached, after how many steps, by how much; with "
                 "--by tensor apart for each tensor that held the fault")
      ->excludes("--view")
      ->excludes("--horizons");
  command->add_flag("--json", options->report.json, "print JSON instead of the table");
  command->footer(
      "Examples:\n"
      "  bitrift analyze results/q --by strategy --effects\n"
      "  bitrift analyze results/q --horizons\n"
      "  bitrift analyze results/q --view jpdc2024");
  command->callback([options, &exit_code] { exit_code.value = analyze_folder(*options); });
}

}  // namespace bitrift::cli
