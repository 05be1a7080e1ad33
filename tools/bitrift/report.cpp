#include "report.h"

#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

#include "analyze/guards/detectors_view.h"
#include "analyze/map_view.h"
#include "analyze/process/process_view.h"
#include "analyze/table.h"
#include "analyze/verdict/trust.h"
#include "analyze/views/dimension.h"
#include "analyze/views/horizons.h"
#include "analyze/views/metrics_view.h"
#include "analyze/views/propagation_view.h"
#include "analyze/views/study_view.h"
#include "analyze/views/where.h"
#include "campaign/commands/merge.h"
#include "campaign/folder/contents.h"
#include "campaign/folder/folder.h"
#include "campaign/folder/resumed_steps.h"
#include "campaign/journal/journal.h"
#include "core/file.h"
#include "core/log.h"
#include "output.h"
#include "record/provenance.h"

namespace bitrift::cli {
namespace {

analyze::Judging judging_for(const design::CampaignSpec& spec, const ReportOptions& options) {
  analyze::Judging judging = analyze::judging_of(spec);
  judging.horizon = options.horizon;
  if (!options.metrics.empty()) judging.metrics.clear();
  for (const std::string& name : options.metrics) judging.metrics.push_back(record::metric_from_text(name));
  return judging;
}

void print_study(const std::vector<record::TrialRecord>& rows, const design::CampaignSpec& spec,
                 const analyze::Trust& trust, const ReportOptions& options) {
  const auto by = analyze::dimensions(options.by, spec);
  const auto show = [&](const auto& lines, const auto& text) {
    if (!options.json) return print(text(lines, by));
    print(record::Json{{"view", name_of(options.view)},
                       {"by", analyze::dimension_names(by)},
                       {"lines", analyze::to_json(lines)}}
              .dump(2) +
          "\n");
  };
  if (options.view == View::metrics) {
    show(analyze::metrics_view(rows, spec, trust, options.by), analyze::metrics_table);
  } else {
    show(analyze::study_view(rows, spec, trust, options.by), analyze::study_table);
  }
}

// As asked for: the document itself keeps all groups.
void print_summary(analyze::Summary summary, const ReportOptions& options, record::Json document) {
  const std::size_t all = summary.groups.size();
  if (options.sort) analyze::sort_worst_first(summary, *options.sort);
  if (options.top > 0 && all > options.top) summary.groups.resize(options.top);
  if (options.json) {
    document["groups"] = analyze::to_json(summary).at("groups");
    return print(document.dump(2) + "\n");
  }
  print(analyze::table(summary));
  if (summary.groups.size() < all) print(fmt::format("{} of {} lines shown\n", options.top, all));
}

void print_map(const TrustedCampaign& campaign, const ReportOptions& options) {
  const analyze::Contents contents = campaign::read_contents(campaign.layout, campaign.stored);
  analyze::SummaryOptions rates = options.rates;
  rates.untried = true;
  rates.contents = &contents;
  const auto map = analyze::map_view(
      analyze::summarize(campaign.rows, campaign.stored.spec, campaign.trust, analyze::map_dimensions(),
                         campaign::read_rounds(campaign.layout), rates),
      options.map_of);
  print(options.json ? analyze::to_json(map).dump(2) + "\n" : analyze::map_table(map));
}

template <typename Table>
void print_table(const Table& table, const ReportOptions& options, const std::vector<std::string>& command) {
  if (!options.json) return print(analyze::table(table));
  record::Json document = analyze::to_json(table);
  document["provenance"] = record::provenance(command);
  print(document.dump(2) + "\n");
}

// The rates, and the views that count the rows behind them: each also writes summary.json.
void report_rates(const TrustedCampaign& campaign, const ReportOptions& options,
                  const std::vector<std::string>& command) {
  const auto& [layout, stored, rows, trust] = campaign;
  const design::CampaignSpec& spec = stored.spec;
  const auto by = options.by.empty() ? analyze::usual_dimensions(spec) : options.by;
  analyze::Contents contents;
  if (analyze::needs_contents(by, options.rates.where)) contents = campaign::read_contents(layout, stored);
  analyze::SummaryOptions rates = options.rates;
  rates.contents = &contents;
  const analyze::Summary summary =
      analyze::summarize(rows, spec, trust, by, campaign::read_rounds(layout), rates);
  record::Json document = analyze::to_json(summary);
  document["provenance"] = record::provenance(command);
  const std::string text = document.dump(2) + "\n";
  if (options.view == View::rates) {
    print_summary(summary, options, document);
  } else {
    print_study(rows, spec, trust, options);
  }
  if (access(layout.root.c_str(), W_OK) != 0) {
    spdlog::warn("{} cannot be written to: summary.json is left as it is", layout.root.string());
    return;
  }
  replace_text(layout.summary(), text);
}

void print_horizons(const TrustedCampaign& campaign, const ReportOptions& options) {
  const auto lines = analyze::horizons_of(campaign.rows, campaign.trust.judging);
  print(options.json ? record::Json{{"horizons", analyze::to_json(lines)}}.dump(2) + "\n"
                     : analyze::table(lines));
}

}  // namespace

std::vector<record::TrialRecord> effective_rows(const campaign::Layout& layout) {
  auto rows = campaign::read_journal(layout.journal()).effective();
  campaign::warn_unless_merged(layout);
  return rows;
}

std::optional<TrustedCampaign> read_trusted(const std::filesystem::path& folder,
                                            const ReportOptions& options) {
  TrustedCampaign campaign;
  campaign.layout = {folder};
  campaign.stored = campaign::read_stored_campaign(campaign.layout);
  campaign.rows = effective_rows(campaign.layout);
  campaign.trust = analyze::trust_of(campaign.rows, judging_for(campaign.stored.spec, options));
  const auto& problems = campaign.trust.problems;
  if (problems.empty()) return campaign;
  for (const std::string& problem : problems) fmt::print(stderr, "bitrift: {}\n", problem);
  fmt::print(stderr,
             "bitrift: {}: controls or canaries misbehave, so no rate of this campaign can be trusted\n",
             folder.string());
  return std::nullopt;
}

std::string trial_text(const analyze::TrialLine& line) {
  const record::Outcome& outcome = line.outcome;
  std::string text = fmt::format("{}: {}, {}", line.row->id.text(), name_of(outcome.outcome_class()),
                                 name_of(outcome.reason));
  if (outcome.p_value) text += fmt::format(", p {:.4f}", *outcome.p_value);
  text += "\n  faults   " + record::described(line.row->faults, 4) + "\n  metrics  ";
  const char* separator = "";
  for (const record::Metric& metric : analyze::shown_metrics(line)) {
    if (!line.at) break;
    const auto value = metric.value_in(*line.at);
    const auto golden = metric.value_in(*line.golden);
    if (!value || !golden) continue;
    text += fmt::format("{}{} {:.4f} (golden {:.4f})", separator, metric.name(), *value, *golden);
    separator = ", ";
  }
  return text + (line.at ? "\n" : "none: the run did not reach the evaluation that is judged\n");
}

int report_campaign(const std::filesystem::path& folder, const ReportOptions& options,
                    const std::vector<std::string>& command) {
  const auto campaign = read_trusted(folder, options);
  if (!campaign) return 1;
  const auto& [layout, stored, rows, trust] = *campaign;
  const design::CampaignSpec& spec = stored.spec;
  switch (options.view) {
    case View::rates:
    case View::metrics:
    case View::jpdc2024:
      report_rates(*campaign, options, command);
      break;
    case View::map:
      print_map(*campaign, options);
      break;
    case View::horizons:
      print_horizons(*campaign, options);
      break;
    case View::propagation:
      print_table(analyze::propagation_of(rows, spec, !options.by.empty()), options, command);
      break;
    case View::detectors:
      print_table(analyze::scoreboard_of(rows, spec, trust, campaign::resumed_steps(layout, spec)), options,
                  command);
      break;
    case View::process:
      print_table(analyze::process_view(rows, spec, trust, campaign::read_rounds(layout), options.rates),
                  options, command);
      break;
  }
  return 0;
}

}  // namespace bitrift::cli
