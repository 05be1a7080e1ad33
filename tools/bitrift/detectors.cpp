#include "analyze/views/detectors_view.h"
#include "campaign/folder/resumed_steps.h"
#include "output.h"
#include "record/provenance.h"
#include "report.h"

namespace bitrift::cli {

int report_detectors(const std::filesystem::path& folder, bool json,
                     const std::vector<std::string>& command) {
  const campaign::Layout layout{folder};
  const record::CampaignSpec spec = campaign::read_stored_campaign(layout).spec;
  const auto rows = effective_rows(layout);
  const analyze::Trust trust = analyze::trust_of(rows, analyze::judging_of(spec));
  if (!trusted(folder, trust)) return 1;
  const analyze::Scoreboard board =
      analyze::scoreboard_of(rows, spec, trust, campaign::resumed_steps(layout, spec));
  record::Json document = analyze::to_json(board);
  document["provenance"] = record::provenance(command);
  print(json ? document.dump(2) + "\n" : analyze::table(board));
  return 0;
}

}  // namespace bitrift::cli
