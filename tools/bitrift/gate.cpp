#include "analyze/across/gate.h"

#include <map>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "analyze/across/gate_report.h"
#include "campaign/folder/folder.h"
#include "commands.h"
#include "core/error.h"
#include "core/file.h"
#include "output.h"
#include "record/provenance.h"
#include "report.h"
#include "samples.h"

namespace bitrift::cli {
namespace {

struct GateOptions {
  std::string folder;
  std::string baseline;
  std::string tolerance;
  std::string junit;
  std::string markdown;
  bool update = false;
  bool json = false;
};

analyze::GateRules rules_of(const GateOptions& options) {
  if (options.tolerance.empty()) return {};
  return analyze::gate_rules_from(record::parse_file(options.tolerance));
}

// What was altered, in words, from the rows of the campaign.
void describe_flips(analyze::GateReport& report, const std::string& folder) {
  if (report.flips.empty()) return;
  std::map<record::TrialId, analyze::Flip*> wanted;
  for (analyze::Flip& flip : report.flips) wanted[flip.id] = &flip;
  for (const record::TrialRecord& row : effective_rows(campaign::Layout{folder})) {
    if (row.kind != record::TrialKind::trial || !wanted.contains(row.id)) continue;
    wanted[row.id]->fault = record::described(row.faults, 2);
  }
}

void show(const analyze::GateReport& report, bool json) {
  if (!json) return print(analyze::text(report));
  record::Json document = analyze::to_json(report);
  document["provenance"] = record::provenance(command_line());
  print_json(document);
}

void write_baseline(const analyze::Sample& sample, const std::string& path) {
  record::Json document = analyze::to_json(sample);
  document["provenance"] = record::provenance(command_line());
  replace_text(path, document.dump(1) + "\n");
}

// Writes a new baseline, after a look at the old one, which must be one.
int update(const GateOptions& options) {
  if (std::filesystem::is_directory(options.baseline))
    fail(ErrorCode::bad_input, "{}: is a folder; name the baseline file to write", options.baseline);
  const auto sample = read_campaign_sample(options.folder);
  if (!sample) return 1;
  analyze::refuse_unfinished(*sample);
  if (!std::filesystem::exists(options.baseline)) {
    write_baseline(*sample, options.baseline);
    fmt::print("wrote {}: {}\n", options.baseline, counted(sample->trials(), "trial"));
    return 0;
  }
  analyze::Sample old;
  try {
    old = analyze::sample_from_json(record::parse_file(options.baseline).value);
  } catch (const Error& error) {
    fail(ErrorCode::bad_file, "{}: {}; remove it to write a new baseline there", options.baseline,
         error.what());
  }
  try {
    analyze::GateReport report = analyze::gate(old, *sample, rules_of(options));
    describe_flips(report, options.folder);
    print(analyze::text(report));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) throw;
    fmt::print("not compared with the old baseline: {}\n", error.what());
  }
  write_baseline(*sample, options.baseline);
  fmt::print("wrote {}: {} in place of {}\n", options.baseline, counted(sample->trials(), "trial"),
             with_commas(old.trials()));
  return 0;
}

int gate(const GateOptions& options) {
  if (options.update) return update(options);
  const analyze::GateRules rules = rules_of(options);
  const auto baseline = read_baseline(options.baseline);
  const auto current = read_campaign_sample(options.folder);
  if (!baseline || !current) return 1;
  analyze::GateReport report = analyze::gate(*baseline, *current, rules);
  describe_flips(report, options.folder);
  if (!options.junit.empty()) replace_text(options.junit, analyze::junit(report, record::utc_now()));
  if (!options.markdown.empty()) replace_text(options.markdown, analyze::markdown(report, options.folder));
  show(report, options.json);
  return report.verdict() == analyze::GateVerdict::passed ? 0 : 1;
}

}  // namespace

void add_gate(CLI::App& app, ExitCode& exit_code) {
  const auto options = std::make_shared<GateOptions>();
  CLI::App* command = app.add_subcommand(
      "gate", "Test whether a campaign shows more harm than a baseline: a check for CI (docs/ci.md)");
  command->add_option("DIR", options->folder, "campaign folder")->required();
  command
      ->add_option("--baseline", options->baseline,
                   "file that --update wrote, or the folder of another campaign (or its summary.json)")
      ->required();
  command->add_option(
      "--tolerance", options->tolerance,
      "JSON file: which rates to test, the increase to accept, and the probability of a false alarm "
      "(default: SDC and crash of every arm, no increase, 5 %)");
  CLI::Option* junit =
      command->add_option("--junit", options->junit, "write a JUnit XML file: a test case for each rate");
  CLI::Option* markdown = command->add_option("--markdown", options->markdown,
                                              "write a Markdown file, such as for a pull request");
  CLI::Option* json = command->add_flag("--json", options->json, "print JSON");
  command
      ->add_flag("--update", options->update,
                 "write the campaign's outcomes as the new baseline, and print what changed")
      ->excludes(junit)
      ->excludes(markdown)
      ->excludes(json);
  command->footer(
      "Examples:\n"
      "  bitrift gate results/ci --baseline baseline.json --update\n"
      "  bitrift gate results/ci --baseline baseline.json --junit gate.xml --markdown gate.md\n"
      "  bitrift gate results/ci --baseline baseline.json --tolerance examples/ci/gate.json\n\n"
      "Exit codes: 0 passed; 1 a rate has increased by more than its tolerance, an increase of "
      "must_see_points "
      "could pass unseen, or a control, canary or clean run did not end as required; 2 usage or input error, "
      "3 "
      "internal error in bitrift");
  command->callback([options, &exit_code] { exit_code.value = gate(*options); });
}

}  // namespace bitrift::cli
