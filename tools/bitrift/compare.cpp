#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "analyze/across/comparison.h"
#include "campaign/folder/folder.h"
#include "commands.h"
#include "core/error.h"
#include "options/one_of.h"
#include "output.h"
#include "record/provenance.h"
#include "report.h"
#include "samples.h"

namespace bitrift::cli {
namespace {

struct CompareOptions {
  std::string folder;
  std::string other;  // "": the arms of `folder` among themselves
  std::vector<std::string> arms;
  std::vector<std::string> strata;
  std::vector<std::string> outcomes;
  double margin_points = 1;
  bool json = false;
};

analyze::ComparisonOptions wanted_of(const CompareOptions& options) {
  analyze::ComparisonOptions wanted;
  wanted.arms = options.arms;
  wanted.strata = options.strata;
  wanted.margin = options.margin_points / 100;
  for (const std::string& name : options.outcomes)
    wanted.outcomes.push_back(parse_named<record::OutcomeClass>(name));
  return wanted;
}

void show(const analyze::Comparison& comparison, bool json) {
  if (!json) return print(analyze::text(comparison));
  record::Json document = analyze::to_json(comparison);
  document["provenance"] = record::provenance(command_line());
  print(document.dump(2) + "\n");
}

int compare_within(const CompareOptions& options) {
  const auto campaign = read_trusted(options.folder);
  if (!campaign) return 1;
  const auto& [layout, stored, rows, trust] = *campaign;
  const auto compared = options.strata.empty() ? &analyze::compare_arms : &analyze::compare_strata;
  show(compared(rows, stored.spec, trust, campaign::read_rounds(layout), wanted_of(options)), options.json);
  return 0;
}

int compare_campaigns(const CompareOptions& options) {
  const auto first = read_campaign_sample(options.folder);
  const auto second = read_campaign_sample(options.other);
  if (!first || !second) return 1;
  show(analyze::compare_campaigns(*first, options.folder, *second, options.other, wanted_of(options)),
       options.json);
  return 0;
}

int compare(const CompareOptions& options) {
  if (options.other.empty()) return compare_within(options);
  if (!options.strata.empty())
    fail(ErrorCode::bad_input, "--strata compares strata of one campaign; leave out {}", options.other);
  return compare_campaigns(options);
}

}  // namespace

void add_compare(CLI::App& app, ExitCode& exit_code) {
  const auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand(
      "compare", "Compare the outcome rates of arms over the same faults, of strata, or of two campaigns");
  command->add_option("DIR", options->folder, "campaign folder")->required();
  command->add_option("OTHER", options->other,
                      "another campaign folder: compare its arms with those of DIR that have the same name");
  command
      ->add_option("--arm,--arms", options->arms,
                   "arms, repeatable or comma-separated: the first is compared with each of the others "
                   "(default: all pairs); with OTHER: an arm of DIR and an arm of OTHER")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option(
          "--strata", options->strata,
          "strata of one arm (--arm), repeatable or comma-separated: the first is compared with each of "
          "the others, draw by draw if they are paired")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--outcome", options->outcomes, "outcome to compare; repeatable (default: SDC and crash)")
      ->check(one_of<record::OutcomeClass>())
      ->allow_extra_args(false);
  command
      ->add_option("--margin", options->margin_points,
                   "call two rates equal if the whole interval of their difference lies within this many "
                   "points (default: 1)")
      ->type_name("POINTS");
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "Examples:\n"
      "  bitrift compare results/quickstart\n"
      "  bitrift compare results/quickstart --arm serial,data-2 --outcome SDC\n"
      "  bitrift compare results/paired --strata parameter.exponent,update.exponent\n"
      "  bitrift compare results/before results/after\n\n" +
      std::string(checking_exit_codes));
  command->callback([options, &exit_code] { exit_code.value = compare(*options); });
}

}  // namespace bitrift::cli
