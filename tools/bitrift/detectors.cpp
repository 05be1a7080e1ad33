#include "analyze/views/detectors_view.h"
#include "campaign/folder/resumed_steps.h"
#include "output.h"
#include "record/provenance.h"
#include "report.h"

namespace bitrift::cli {

int report_detectors(const std::filesystem::path& folder, bool json,
                     const std::vector<std::string>& command) {
  const auto campaign = read_trusted(folder);
  if (!campaign) return 1;
  const design::CampaignSpec& spec = campaign->stored.spec;
  const analyze::Scoreboard board = analyze::scoreboard_of(campaign->rows, spec, campaign->trust,
                                                           campaign::resumed_steps(campaign->layout, spec));
  record::Json document = analyze::to_json(board);
  document["provenance"] = record::provenance(command);
  print(json ? document.dump(2) + "\n" : analyze::table(board));
  return 0;
}

}  // namespace bitrift::cli
