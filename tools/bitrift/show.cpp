#include <memory>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "analyze/views/trials_view.h"
#include "campaign/folder/contents.h"
#include "campaign/folder/folder.h"
#include "commands.h"
#include "core/error.h"
#include "options/one_of.h"
#include "options/whole_number.h"
#include "output.h"
#include "report.h"

namespace bitrift::cli {
namespace {

using analyze::TrialLine;
using record::Json;

struct ShowOptions {
  std::string folder;
  std::vector<std::string> ids, outcomes, reasons, arms, strata;
  std::string sort;
  std::uint64_t top = 0;
  bool json = false;
};

constexpr const char* by_p_value = "p_value";

template <NamedEnum E>
std::set<E> parsed(const std::vector<std::string>& names) {
  std::set<E> values;
  for (const std::string& name : names) values.insert(parse_named<E>(name));
  return values;
}

std::vector<TrialLine> chosen(const ShowOptions& options, const std::vector<record::TrialRecord>& rows,
                              const analyze::Trust& trust) {
  analyze::TrialFilter filter;
  filter.outcomes = parsed<record::OutcomeClass>(options.outcomes);
  filter.reasons = parsed<record::Reason>(options.reasons);
  filter.arms = {options.arms.begin(), options.arms.end()};
  filter.strata = {options.strata.begin(), options.strata.end()};
  filter.ids = {options.ids.begin(), options.ids.end()};
  auto lines = analyze::trials_view(rows, trust, filter);
  if (options.sort == by_p_value) {
    analyze::sort_worst_first(lines);
  } else if (!options.sort.empty()) {
    analyze::sort_worst_first(lines, analyze::shown_metric(lines, options.sort));
  }
  return lines;
}

int show(const ShowOptions& options) {
  const auto campaign = read_trusted(options.folder);
  if (!campaign) return 1;
  const auto& [layout, stored, rows, trust] = *campaign;
  auto lines = chosen(options, rows, trust);
  const std::size_t all = lines.size();
  if (options.top > 0 && all > options.top) lines.resize(options.top);
  if (options.json) {
    Json list = Json::array();
    const auto layers = campaign::layers_of_tensors(layout, stored.spec);
    for (const TrialLine& line : lines) {
      list.push_back(analyze::to_json(line));
      const record::FaultList& bits = line.row->faults.bits();
      const auto layer = layers.find(bits.empty() ? "" : bits.at(0).tensor);
      list.back()["layer"] = layer == layers.end() ? Json() : Json(layer->second);
    }
    print_json(list);
    return 0;
  }
  std::string text;
  for (const TrialLine& line : lines) {
    text += trial_text(line);
    text += fmt::format("  replay   bitrift campaign replay {} {}\n\n", options.folder, line.row->id.text());
  }
  print(text + fmt::format("{} of {} shown\n", lines.size(), counted(all, "trial")));
  return 0;
}

}  // namespace

void add_show(CLI::App& parent, ExitCode& exit_code) {
  const auto options = std::make_shared<ShowOptions>();
  CLI::App* command = parent.add_subcommand(
      "show", "Show single trials: fault, outcome, metrics, and the command that replays it");
  command->add_option("DIR", options->folder, "campaign folder")->required();
  command->add_option("ID", options->ids, "only these trials: ARM/STRATUM/DRAW");
  command->add_option("--outcome", options->outcomes, "only trials with this outcome; repeatable")
      ->check(one_of<record::OutcomeClass>())
      ->allow_extra_args(false);
  command
      ->add_option("--reason", options->reasons, "only trials with this reason, such as bitwise; repeatable")
      ->check(one_of<record::Reason>())
      ->type_name("REASON")
      ->allow_extra_args(false);
  command->add_option("--arm", options->arms, "only trials of this arm; repeatable")->allow_extra_args(false);
  command->add_option("--stratum", options->strata, "only trials of this stratum; repeatable")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--sort", options->sort,
          "worst first, by p_value or a metric: the smallest p-value, the lowest accuracy, the highest loss "
          "(default: in the order of the journal)")
      ->type_name("METRIC");
  command->add_option("--top", options->top, "show only the first N trials")
      ->check(whole_number(1, 1'000'000'000))
      ->type_name("N");
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "Examples:\n"
      "  bitrift campaign show results/quickstart serial/weight.exponent/3\n"
      "  bitrift campaign show results/quickstart --outcome SDC --sort test_loss --top 10\n\n" +
      std::string(checking_exit_codes));
  command->callback([options, &exit_code] { exit_code.value = show(*options); });
}

}  // namespace bitrift::cli
