#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "analyze/views/dimension.h"
#include "commands.h"
#include "core/error.h"
#include "core/log.h"
#include "options/one_of.h"
#include "options/positive_number.h"
#include "options/whole_number.h"
#include "output.h"
#include "report.h"

namespace bitrift::cli {
namespace {

struct AnalyzeOptions {
  std::string folder;
  ReportOptions report;
  std::string view = name_of(View::rates);
  std::string interval = "anytime";
  std::string arm, sort;
  std::string outcome = name_of(analyze::RateOf::harmed);
  std::size_t horizon = 0;
  double field_rate = 0;
};

// Which options choose, group or judge what a view shows. The others would be ignored, so they are refused.
std::vector<std::string> options_of(View view) {
  switch (view) {
    case View::rates:
      return {"--by",      "--where",    "--arm",          "--sort",    "--top",       "--horizon",
              "--metrics", "--interval", "--simultaneous", "--effects", "--field-rate"};
    case View::map:
      return {"--where", "--arm", "--outcome", "--horizon", "--metrics", "--interval", "--simultaneous"};
    case View::process:
      return {"--where", "--arm", "--horizon", "--metrics", "--interval", "--simultaneous"};
    case View::metrics:
    case View::jpdc2024:
      return {"--by", "--horizon", "--metrics"};
    case View::horizons:
      return {"--metrics"};
    case View::propagation:
      return {"--by"};
    case View::detectors:
      break;
  }
  return {};
}

void check_view(const CLI::App& command, const ReportOptions& report) {
  const std::vector<std::string> used = options_of(report.view);
  for (const std::string& name : options_of(View::rates)) {
    if (command.count(name) == 0 || std::ranges::find(used, name) != used.end()) continue;
    fail(ErrorCode::bad_input, "{}: --view {} does not use it; leave it out (it uses {})", name,
         name_of(report.view), used.empty() ? "no such option" : fmt::format("{}", fmt::join(used, ", ")));
  }
  if (command.count("--outcome") > 0 && report.view != View::map)
    fail(ErrorCode::bad_input, "--outcome: is for --view map; leave it out, or give --view map");
  if (report.view != View::propagation) return;
  for (const std::string& name : report.by) {
    if (name == "tensor") continue;
    fail(ErrorCode::bad_input,
         "--by {}: --view propagation supports only --by tensor (where the fault was planted)", name);
  }
}

bool names_arm(const std::string& word) {
  return analyze::find_dimension(word) == analyze::Dimension::strategy;
}

int analyze_folder(const CLI::App& command, AnalyzeOptions& options) {
  ReportOptions& report = options.report;
  report.view = parse_named<View>(options.view);
  check_view(command, report);
  report.rates.interval = analyze::interval_kind(options.interval);
  if (options.horizon > 0) report.horizon = options.horizon;
  if (command.count("--field-rate") > 0) report.rates.field_rate = options.field_rate;
  if (!options.arm.empty()) report.rates.where.push_back("arm=" + options.arm);
  if (!options.sort.empty()) report.sort = parse_named<analyze::RateOf>(options.sort);
  report.map_of = parse_named<analyze::RateOf>(options.outcome);
  if (report.view != View::propagation && !report.by.empty() && std::ranges::none_of(report.by, names_arm))
    spdlog::info("added --by arm: every fault runs in every arm, so arms cannot be pooled");
  return report_campaign(options.folder, report, command_line());
}

// Which lines, and in which order.
void add_choice(CLI::App& command, AnalyzeOptions& options) {
  command
      .add_option(
          "--where", options.report.rates.where,
          "use only trials that meet this condition: KEY=VALUE[,VALUE...], with a KEY of --by, such as "
          "role=momentum or layer=conv1,conv2 (tensor: globs); repeatable: all conditions must hold")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command.add_option("--arm", options.arm, "the same as --where arm=NAME")->type_name("NAME");
  command
      .add_option("--sort", options.sort,
                  "worst line first, by masked, SDC, crash or harmed (SDC or crash): by the lower end of the "
                  "interval, then by the estimate, because the estimate from a few trials says little "
                  "(default: in the order of --by)")
      ->check(one_of<analyze::RateOf>());
  command.add_option("--top", options.report.top, "print only the first N lines (default: all)")
      ->check(whole_number(1, 1'000'000'000))
      ->type_name("N");
  command
      .add_option("--outcome", options.outcome,
                  "with --view map: the rate that it shows, masked, SDC, crash or harmed (SDC or crash) "
                  "(default: harmed)")
      ->check(one_of<analyze::RateOf>());
}

void add_judging(CLI::App& command, AnalyzeOptions& options) {
  command
      .add_option("--horizon", options.horizon,
                  "judge trials at the N-th evaluation after the resume, counted from 1 (default: the last)")
      ->check(whole_number(1, 1'000'000'000))
      ->type_name("N");
  command
      .add_option("--metrics", options.report.metrics,
                  "comma-separated metrics by which to judge trials: test_accuracy, test_capped_loss, "
                  "test_loss, train_accuracy, train_loss, or NAME=lower or NAME=higher for one that your own "
                  "program measures (default: those of the campaign's spec)")
      ->delimiter(',')
      ->allow_extra_args(false);
}

}  // namespace

void add_analyze(CLI::App& app, ExitCode& exit_code) {
  const auto options = std::make_shared<AnalyzeOptions>();
  CLI::App* command = app.add_subcommand(
      "analyze", "Print outcome rates with confidence intervals, and write DIR/summary.json");
  command->add_option("DIR", options->folder, "campaign folder")->required();
  command
      ->add_option(
          "--by", options->report.by,
          "comma-separated: group rates by arm, base, role, field, stratum, state (model or optimizer), "
          "layer, "
          "tensor, bit, scope, plane, precision or guard (with --view propagation: by tensor); repeatable "
          "(default: arm and field or, if the spec uses fault models, arm and stratum)")
      ->delimiter(',')
      ->allow_extra_args(false);
  add_choice(*command, *options);
  command
      ->add_option("--interval", options->interval,
                   "confidence interval to show: anytime stays valid however often you look at the results "
                   "on the way; "
                   "wilson and clopper_pearson are valid for one look, at a number of trials fixed in "
                   "advance (default: "
                   "anytime)")
      ->check(one_of<analyze::IntervalKind>());
  command->add_flag("--simultaneous", options->report.rates.simultaneous,
                    "widen the intervals so that all of them hold together, not each by itself");
  command->add_flag(
      "--effects", options->report.rates.effects,
      "also print how many trials lose more than 0.1, 0.5, 1, 2, 5 and 10 points of test accuracy");
  command
      ->add_option("--field-rate", options->field_rate,
                   "how many such faults strike in 1,000 GPU-days, as you measured it: also print how many "
                   "outcomes of each kind to expect in that time, for each arm")
      ->check(positive_number())
      ->type_name("N");
  command
      ->add_option("--view", options->view,
                   "the table to print (default: rates). rates: outcome rates; map: the rate of SDC or crash "
                   "by layer and "
                   "bit; metrics: for each metric, how many trials it alone would classify as SDC; horizons: "
                   "the outcomes at "
                   "each evaluation, and how many trials change outcome later; propagation: for each tensor, "
                   "in how many "
                   "trials it came to differ from the golden run, after how many steps, and by how much "
                   "(with --by tensor, "
                   "one such table for each tensor into which faults were injected); detectors: what each "
                   "guard noticed (see "
                   "docs/detectors.md); process: what became of runs in which ranks failed, how long the "
                   "recoveries took and, in storms, how much of the time was useful (see "
                   "docs/rank-failure.md); jpdc2024: the outcome categories of a study published "
                   "in 2024 (see "
                   "docs/jpdc2024.md)")
      ->check(one_of<View>());
  add_judging(*command, *options);
  command->add_flag("--json", options->report.json, "print JSON instead of the table");
  command->footer(
      "Examples:\n"
      "  bitrift analyze results/quickstart --by arm --effects\n"
      "  bitrift analyze results/quickstart --by layer,bit --sort SDC --top 10\n"
      "  bitrift analyze results/quickstart --by field --where role=momentum\n"
      "  bitrift analyze results/quickstart --view map --arm serial\n"
      "  bitrift analyze results/compute --by role --field-rate 2.5\n"
      "  bitrift analyze results/quickstart --view horizons\n"
      "  bitrift analyze results/quickstart --view jpdc2024\n"
      "  bitrift analyze results/process --view process --where field=recovery\n\n" +
      std::string(checking_exit_codes));
  command->callback([options, command, &exit_code] { exit_code.value = analyze_folder(*command, *options); });
}

}  // namespace bitrift::cli
