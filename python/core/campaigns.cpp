#include "campaigns.h"

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "analyze/across/comparison.h"
#include "analyze/guards/detectors_view.h"
#include "analyze/map_view.h"
#include "analyze/process/process_view.h"
#include "analyze/summary.h"
#include "analyze/table.h"
#include "analyze/verdict/trust.h"
#include "analyze/views/dimension.h"
#include "analyze/views/propagation_view.h"
#include "analyze/views/trials_view.h"
#include "analyze/views/where.h"
#include "campaign/folder/contents.h"
#include "campaign/folder/folder.h"
#include "campaign/folder/resumed_steps.h"
#include "campaign/journal/journal.h"
#include "core/error.h"
#include "json_text.h"
#include "report.h"
#include "trial_columns.h"

namespace py = pybind11;
using Path = std::filesystem::path;

namespace {

using bitrift::ErrorCode;
using bitrift::python::text_of;
using bitrift::record::Json;

/// A campaign's folder, read once.
struct Campaign {
  bitrift::design::CampaignSpec spec;
  std::vector<bitrift::record::TrialRecord> rows;
  std::vector<bitrift::record::Round> rounds;
};

Campaign read_campaign(const Path& folder) {
  const bitrift::campaign::Layout layout{folder};
  return {bitrift::campaign::read_stored_campaign(layout).spec,
          bitrift::campaign::read_journal(layout.journal()).effective(),
          bitrift::campaign::read_rounds(layout)};
}

std::string read_journal(const Path& folder) {
  Json list = Json::array();
  for (const auto& row : read_campaign(folder).rows) list.push_back(bitrift::record::to_json(row));
  return text_of(list);
}

/// How the caller wants rows judged: what is absent is as the campaign asks.
struct Wishes {
  std::optional<std::size_t> horizon;
  std::optional<std::vector<std::string>> metrics;
  std::optional<double> level;
};

bitrift::analyze::Judging judging_for(const Campaign& campaign, const Wishes& wishes) {
  auto judging = bitrift::analyze::judging_of(campaign.spec);
  judging.horizon = wishes.horizon;
  if (wishes.level) judging.level = *wishes.level;
  if (wishes.metrics) {
    judging.metrics.clear();
    for (const auto& name : *wishes.metrics)
      judging.metrics.push_back(bitrift::record::metric_from_text(name));
  }
  return judging;
}

bitrift::analyze::Trust trust_of(const Path& folder, const Campaign& campaign, const Wishes& wishes) {
  auto trust = bitrift::analyze::trust_of(campaign.rows, judging_for(campaign, wishes));
  if (trust.problems.empty()) return trust;
  bitrift::fail(ErrorCode::conflict, "{}: controls or canaries misbehave; the first: {}", folder.string(),
                trust.problems.front());
}

py::list trials(const Path& folder, const std::vector<std::string>& kinds, const Wishes& wishes) {
  const Campaign campaign = read_campaign(folder);
  bitrift::analyze::TrialFilter filter;
  filter.kinds.clear();
  for (const auto& kind : kinds) filter.kinds.insert(bitrift::parse_named<bitrift::record::TrialKind>(kind));
  const auto lines = bitrift::analyze::trials_view(campaign.rows, trust_of(folder, campaign, wishes), filter);
  return bitrift::python::trial_columns(
      lines, bitrift::campaign::layers_of_tensors(bitrift::campaign::Layout{folder}, campaign.spec));
}

std::string compare(const Path& folder, const std::vector<std::string>& arms,
                    const std::vector<std::string>& outcomes, double margin) {
  const Campaign campaign = read_campaign(folder);
  bitrift::analyze::ComparisonOptions options;
  options.arms = arms;
  options.margin = margin;
  for (const auto& name : outcomes)
    options.outcomes.push_back(bitrift::parse_named<bitrift::record::OutcomeClass>(name));
  return text_of(bitrift::analyze::to_json(bitrift::analyze::compare_arms(
      campaign.rows, campaign.spec, trust_of(folder, campaign, {}), campaign.rounds, options)));
}

std::string propagation(const Path& folder, bool by_tensor) {
  const Campaign campaign = read_campaign(folder);
  const auto view = bitrift::analyze::propagation_of(campaign.rows, campaign.spec, by_tensor);
  (void)trust_of(folder, campaign, {});
  return text_of(bitrift::analyze::to_json(view));
}

std::string detectors(const Path& folder) {
  const Campaign campaign = read_campaign(folder);
  const auto resumed = bitrift::campaign::resumed_steps(bitrift::campaign::Layout{folder}, campaign.spec);
  return text_of(bitrift::analyze::to_json(bitrift::analyze::scoreboard_of(
      campaign.rows, campaign.spec, trust_of(folder, campaign, {}), resumed)));
}

std::string outcomes(const Path& folder, const std::vector<std::string>& kinds, const Wishes& wishes) {
  const Campaign campaign = read_campaign(folder);
  const auto trust = trust_of(folder, campaign, wishes);
  std::set<bitrift::record::TrialKind> wanted;
  for (const auto& kind : kinds) wanted.insert(bitrift::parse_named<bitrift::record::TrialKind>(kind));
  Json list = Json::array();
  for (const auto& row : campaign.rows) {
    if (!wanted.contains(row.kind)) continue;
    const auto outcome = bitrift::analyze::classify(row, trust.controls.at(row.id.arm), trust.judging);
    list.push_back({{"arm", row.id.arm},
                    {"stratum", row.id.stratum},
                    {"draw", row.id.draw},
                    {"kind", bitrift::name_of(row.kind)},
                    {"outcome", bitrift::name_of(outcome.outcome_class())},
                    {"reason", bitrift::name_of(outcome.reason)},
                    {"course", bitrift::name_of(outcome.course)},
                    {"p_value", outcome.p_value ? Json(*outcome.p_value) : Json()},
                    {"bitwise_equal", outcome.bitwise_equal},
                    {"steps_to_recover", outcome.steps_to_recover ? Json(*outcome.steps_to_recover) : Json()},
                    {"recovered", outcome.recovered}});
  }
  return text_of(list);
}

/// What is shown of rates besides.
struct Shown {
  std::string interval;
  bool simultaneous = false;
  bool effects = false;
  std::vector<std::string> where = {};
  bool untried = false;
};

/// Without `by`: as `bitrift analyze` groups by default.
bitrift::analyze::Summary summarized(const Path& folder, const std::optional<std::vector<std::string>>& by,
                                     const Shown& shown, const Wishes& wishes) {
  const Campaign campaign = read_campaign(folder);
  bitrift::analyze::SummaryOptions options;
  options.interval = bitrift::analyze::interval_kind(shown.interval);
  options.simultaneous = shown.simultaneous;
  options.effects = shown.effects;
  options.where = shown.where;
  options.untried = shown.untried;
  const auto trust = bitrift::analyze::trust_of(campaign.rows, judging_for(campaign, wishes));
  const auto dimensions = by ? *by : bitrift::analyze::usual_dimensions(campaign.spec);
  bitrift::analyze::Contents contents;
  if (bitrift::analyze::needs_contents(dimensions, shown.where)) {
    const bitrift::campaign::Layout layout{folder};
    contents = bitrift::campaign::read_contents(layout, bitrift::campaign::read_stored_campaign(layout));
  }
  options.contents = &contents;
  return bitrift::analyze::summarize(campaign.rows, campaign.spec, trust, dimensions, campaign.rounds,
                                     options);
}

std::string process(const Path& folder, const Shown& shown) {
  const Campaign campaign = read_campaign(folder);
  bitrift::analyze::SummaryOptions options;
  options.interval = bitrift::analyze::interval_kind(shown.interval);
  options.simultaneous = shown.simultaneous;
  options.where = shown.where;
  return text_of(bitrift::analyze::to_json(bitrift::analyze::process_view(
      campaign.rows, campaign.spec, trust_of(folder, campaign, {}), campaign.rounds, options)));
}

std::string map_of(const Path& folder, const std::string& outcome, const Shown& shown) {
  const auto what = bitrift::find_named<bitrift::analyze::RateOf>(outcome);
  if (!what) {
    bitrift::fail(ErrorCode::bad_input, "outcome '{}': give one of {}", outcome,
                  bitrift::list_names<bitrift::analyze::RateOf>());
  }
  const auto summary = summarized(folder, bitrift::analyze::map_dimensions(), shown, {});
  return text_of(bitrift::analyze::to_json(bitrift::analyze::map_view(summary, *what)));
}

}  // namespace

namespace bitrift::python {

void add_campaigns(py::module_& module) {
  module.def("read_journal", &read_journal, py::arg("folder"));
  module.def(
      "report", [](const Path& folder) { return text_of(bitrift::python::report(folder)); },
      py::arg("folder"));
  module.def(
      "outcomes",
      [](const Path& folder, const std::vector<std::string>& kinds, std::optional<std::size_t> horizon,
         std::optional<std::vector<std::string>> metrics, std::optional<double> level) {
        return outcomes(folder, kinds, {horizon, std::move(metrics), level});
      },
      py::arg("folder"), py::arg("kinds"), py::arg("horizon"), py::arg("metrics"), py::arg("level"));
  module.def(
      "trials",
      [](const Path& folder, const std::vector<std::string>& kinds, std::optional<std::size_t> horizon,
         std::optional<std::vector<std::string>> metrics) {
        return trials(folder, kinds, {horizon, std::move(metrics), std::nullopt});
      },
      py::arg("folder"), py::arg("kinds"), py::arg("horizon"), py::arg("metrics"));
  module.def("compare", &compare, py::arg("folder"), py::arg("arms"), py::arg("outcomes"), py::arg("margin"));
  module.def("propagation", &propagation, py::arg("folder"), py::arg("by_tensor"));
  module.def(
      "vulnerability_map",
      [](const Path& folder, const std::string& outcome, std::string interval, bool simultaneous,
         std::vector<std::string> where) {
        return map_of(folder, outcome, {std::move(interval), simultaneous, false, std::move(where), true});
      },
      py::arg("folder"), py::arg("outcome"), py::arg("interval"), py::arg("simultaneous"), py::arg("where"));
  module.def("detectors", &detectors, py::arg("folder"));
  module.def(
      "process",
      [](const Path& folder, std::string interval, bool simultaneous, std::vector<std::string> where) {
        return process(folder, {std::move(interval), simultaneous, false, std::move(where)});
      },
      py::arg("folder"), py::arg("interval"), py::arg("simultaneous"), py::arg("where"));
  const auto def_summary = [&](const char* name, auto convert) {
    module.def(
        name,
        [convert](const Path& folder, const std::optional<std::vector<std::string>>& by, std::string interval,
                  bool simultaneous, bool effects, std::optional<std::size_t> horizon,
                  std::optional<std::vector<std::string>> metrics, std::vector<std::string> where) {
          return convert(summarized(folder, by,
                                    {std::move(interval), simultaneous, effects, std::move(where)},
                                    {horizon, std::move(metrics), std::nullopt}));
        },
        py::arg("folder"), py::arg("by"), py::arg("interval"), py::arg("simultaneous"), py::arg("effects"),
        py::arg("horizon"), py::arg("metrics"), py::arg("where"));
  };
  using bitrift::analyze::Summary;
  def_summary("summary", [](const Summary& summary) { return text_of(bitrift::analyze::to_json(summary)); });
  def_summary("table", [](const Summary& summary) { return bitrift::analyze::table(summary); });
}

}  // namespace bitrift::python
