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

struct Options {
  std::string folder;
  ReportOptions report;
  bool propagation = false;
};

bool has(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

int analyze_propagation(const Options& options) {
  const ReportOptions& report = options.report;
  for (const std::string& name : report.by) {
    if (name == "tensor") continue;
    fail(ErrorCode::bad_input, "--by {}: with --propagation only 'tensor' (where the fault was planted)",
         name);
  }
  return report_propagation(options.folder, !report.by.empty(), report.json, command_line());
}

int analyze_folder(const Options& options) {
  if (options.propagation) return analyze_propagation(options);
  const auto& by = options.report.by;
  if (!by.empty() && !has(by, "strategy")) {
    spdlog::info("--by strategy is added: every fault runs in every arm, so arms cannot be pooled");
  }
  return report_campaign(options.folder, options.report, command_line());
}

}  // namespace

void add_analyze(CLI::App& app, ExitCode& exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("analyze", "Print a campaign's rates with intervals and write DIR/summary.json");
  command->add_option("DIR", options->folder, "folder of a campaign")->required();
  command
      ->add_option("--by", options->report.by,
                   "one line per value of: strategy, base, role, field, stratum; may be repeated (default: "
                   "strategy, field)")
      ->allow_extra_args(false);
  command
      ->add_option("--view", options->report.view,
                   "print the trials in the words of a published study: jpdc2024 (RWC, NaN, AccR, TF; "
                   "accuracy mean, deviation, CV)")
      ->check(CLI::IsMember({"jpdc2024"}));
  command
      ->add_flag("--propagation", options->propagation,
                 "print instead which tensors faults reached, after how many steps, by how much; with "
                 "--by tensor apart for each tensor that held the fault")
      ->excludes("--view");
  command->add_flag("--json", options->report.json, "print JSON instead of the table");
  command->callback([options, &exit_code] { exit_code.value = analyze_folder(*options); });
}

}  // namespace bitrift::cli
