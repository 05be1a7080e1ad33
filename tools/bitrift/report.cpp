#include "report.h"

#include <cstdio>

#include <fmt/format.h>

#include "analyze/classify.h"
#include "analyze/keys.h"
#include "analyze/propagation.h"
#include "analyze/study_view.h"
#include "analyze/summary.h"
#include "campaign/folder.h"
#include "campaign/journal.h"
#include "campaign/merge.h"
#include "core/file.h"
#include "output.h"
#include "record/provenance.h"

namespace bitrift::cli {
namespace {

// Whether canaries behave; says on stderr which do not.
bool trusted(const std::filesystem::path& folder, const record::CampaignSpec& spec,
             const std::vector<record::TrialRecord>& rows) {
  const auto problems = analyze::canary_problems(rows, analyze::controls_of(rows, spec.judge), spec.judge);
  if (problems.empty()) return true;
  for (const std::string& problem : problems) fmt::print(stderr, "bitrift: canary: {}\n", problem);
  fmt::print(stderr, "bitrift: {}: canaries misbehave, so no rate of this campaign can be believed\n",
             folder.string());
  return false;
}

void print_study(const std::vector<record::TrialRecord>& rows, const record::CampaignSpec& spec,
                 const ReportOptions& options) {
  const auto by = analyze::dimensions(options.by, spec);
  const auto lines = analyze::study_view(rows, spec, by);
  if (options.json) {
    print(record::Json{{"view", options.view}, {"by", by}, {"lines", analyze::to_json(lines)}}.dump(2) +
          "\n");
  } else {
    print(analyze::study_table(lines, by));
  }
}

std::vector<record::TrialRecord> rows_of(const campaign::Layout& layout) {
  auto rows = campaign::read_journal(layout.journal()).effective();
  campaign::warn_unless_merged(layout);
  return rows;
}

}  // namespace

int report_campaign(const std::filesystem::path& folder, const ReportOptions& options,
                    const std::vector<std::string>& command) {
  const campaign::Layout layout{folder};
  const record::CampaignSpec spec = campaign::read_stored_campaign(layout).spec;
  const auto rows = rows_of(layout);
  if (!trusted(folder, spec, rows)) return 1;
  const std::vector<std::string> usual = {"strategy", spec.strata.models.empty() ? "field" : "stratum"};
  const std::vector<std::string>& dimensions = options.by.empty() ? usual : options.by;
  const analyze::Summary summary = analyze::summarize(rows, spec, dimensions, campaign::read_rounds(layout));
  record::Json document = analyze::to_json(summary);
  document["provenance"] = record::provenance(command);
  const std::string text = document.dump(2) + "\n";
  if (!options.view.empty()) {
    print_study(rows, spec, options);
  } else {
    print(options.json ? text : analyze::table(summary));
  }
  replace_text(layout.summary(), text);
  return 0;
}

int report_propagation(const std::filesystem::path& folder, bool by_origin, bool json,
                       const std::vector<std::string>& command) {
  const campaign::Layout layout{folder};
  const record::CampaignSpec spec = campaign::read_stored_campaign(layout).spec;
  const auto rows = rows_of(layout);
  const analyze::Propagation propagation = analyze::propagation_of(rows, spec, by_origin);
  if (!trusted(folder, spec, rows)) return 1;
  record::Json document = analyze::to_json(propagation);
  document["provenance"] = record::provenance(command);
  print(json ? document.dump(2) + "\n" : analyze::table(propagation));
  return 0;
}

}  // namespace bitrift::cli
