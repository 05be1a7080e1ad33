#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "analyze/comparison.h"
#include "campaign/folder/folder.h"
#include "commands.h"
#include "core/error.h"
#include "options/one_of.h"
#include "output.h"
#include "record/provenance.h"
#include "report.h"

namespace bitrift::cli {
namespace {

struct CompareOptions {
  std::string folder;
  std::vector<std::string> arms;
  std::vector<std::string> outcomes;
  double margin_points = 1;
  bool json = false;
};

int compare(const CompareOptions& options) {
  const campaign::Layout layout{options.folder};
  const record::CampaignSpec spec = campaign::read_stored_campaign(layout).spec;
  const auto rows = effective_rows(layout);
  const analyze::Trust trust = analyze::trust_of(rows, analyze::judging_of(spec));
  if (!trusted(layout.root, trust)) return 1;
  analyze::ComparisonOptions wanted;
  wanted.arms = options.arms;
  wanted.margin = options.margin_points / 100;
  for (const std::string& name : options.outcomes)
    wanted.outcomes.push_back(parse_named<record::OutcomeClass>(name));
  const auto comparison = analyze::compare_arms(rows, spec, trust, campaign::read_rounds(layout), wanted);
  if (!options.json) {
    print(analyze::text(comparison));
    return 0;
  }
  record::Json document = analyze::to_json(comparison);
  document["provenance"] = record::provenance(command_line());
  print(document.dump(2) + "\n");
  return 0;
}

}  // namespace

void add_compare(CLI::App& app, ExitCode& exit_code) {
  const auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand("compare", "Compare the outcome rates of arms over the same faults");
  command->add_option("DIR", options->folder, "campaign folder")->required();
  command
      ->add_option("--arms", options->arms,
                   "comma-separated arms: the first is compared with each of the others (default: all pairs)")
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
      "  bitrift compare results/quickstart --arms serial,data-2 --outcome SDC\n\n" +
      std::string(checking_exit_codes));
  command->callback([options, &exit_code] { exit_code.value = compare(*options); });
}

}  // namespace bitrift::cli
