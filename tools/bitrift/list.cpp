// `bitrift campaign list`: what a campaign runs, without running it.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "campaign/folder/folder.h"
#include "campaign/plan/plan.h"
#include "commands.h"
#include "core/error.h"

namespace bitrift::cli {
namespace {

using record::Json;

// The spec and the bases of a campaign's folder, or of a spec file that names checkpoints.
std::pair<design::CampaignSpec, campaign::Bases> planned_from(const std::string& place,
                                                              const std::vector<std::string>& overrides) {
  if (std::filesystem::is_directory(place)) {
    if (!overrides.empty())
      fail(ErrorCode::bad_input, "--set: {} is a campaign folder, whose spec cannot change; leave out --set",
           place);
    const campaign::Layout layout{place};
    design::CampaignSpec spec = campaign::read_stored_campaign(layout).spec;
    campaign::Bases bases = campaign::open_bases(layout, spec);
    return {std::move(spec), std::move(bases)};
  }
  design::CampaignSpec spec = design::read_campaign_spec(place, overrides);
  campaign::Bases bases;
  for (const record::BaseFile& file : spec.files) {
    const auto& checkpoint = spec.bases[file.base].checkpoint;
    if (!checkpoint || !file.precision.empty()) {
      fail(ErrorCode::bad_input,
           "{}: {} has not been {} yet, so the faults are unknown; start the campaign and list its folder",
           place, file.stem + ".h5", checkpoint ? "converted" : "trained");
    }
    bases.emplace_back(*checkpoint);
  }
  if (const auto needed = spec.strata->fact_needed()) {
    fail(ErrorCode::bad_input,
         "{}: bitrift finds out {} when a campaign begins, and before that the faults are unknown; start it "
         "and list its folder",
         place, needed->says);
  }
  return {std::move(spec), std::move(bases)};
}

constexpr std::size_t most_printed = 4;

// A canary alters whole tensors: its faults are too many to be shown.
bool shows_faults(const record::TrialSpec& run) {
  return run.kind == record::TrialKind::trial || run.kind == record::TrialKind::jitter || !run.faults.empty();
}

void print_run(const record::TrialSpec& run) {
  std::string line = fmt::format("{:<44} {}", run.id.text(), name_of(run.kind));
  if (run.order > 0) line += fmt::format(" in data order {}", run.order);
  if (shows_faults(run)) {
    line += run.faults.empty() ? " no fault" : " " + record::described(run.faults, most_printed);
  }
  fmt::print("{}\n", line);
}

int list_runs(const std::string& place, const std::vector<std::string>& overrides, bool json) {
  const auto [spec, bases] = planned_from(place, overrides);
  campaign::Plan plan(spec, bases);
  if (std::filesystem::is_directory(place)) {
    plan.add_known(campaign::read_rounds(campaign::Layout{place}));
  }
  Json runs = Json::array();
  const auto show = [&](const campaign::RunKey& key) {
    const record::TrialSpec run = plan.expand(key);
    if (!json) return print_run(run);
    Json line = {{"id", run.id.text()},
                 {"kind", name_of(run.kind)},
                 {"epochs", run.epochs},
                 {"order", run.order},
                 {"faults", run.faults}};
    if (run.order_seed) line["order_seed"] = *run.order_seed;
    runs.push_back(std::move(line));
  };
  for (const design::Arm& arm : spec.arms) {
    for (const auto& chain : plan.preparation(arm.name)) {
      for (const campaign::RunKey& key : chain) show(key);
    }
    for (const campaign::RunKey& key : plan.trials(arm.name)) show(key);
  }
  if (json) {
    Json rounds = Json::array();
    for (const record::Round& round : plan.rounds()) rounds.push_back(to_json(round));
    fmt::print("{}\n",
               Json{{"plan", to_json(plan.rounds().front())}, {"rounds", rounds}, {"runs", runs}}.dump(2));
  } else if (!plan.ended() && spec.sampling) {
    fmt::print("rounds after {} are planned from the results of earlier rounds\n",
               plan.rounds().back().number);
  }
  return 0;
}

}  // namespace

void add_list(CLI::App& parent, ExitCode& exit_code) {
  struct Arguments {
    std::string place;
    std::vector<std::string> overrides;
    bool json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      parent.add_subcommand("list", "List the planned runs and their faults, without running them");
  command
      ->add_option("PLACE", arguments->place,
                   "campaign folder, or a campaign spec whose base does not have to be trained first")
      ->required();
  command->add_option("--set", arguments->overrides, "KEY=VALUE: override a key of the spec; repeatable")
      ->allow_extra_args(false);
  command->add_flag("--json", arguments->json, "print JSON");
  command->footer("Example:\n  bitrift campaign list results/quickstart\n\n" + std::string(exit_codes));
  command->callback([arguments, &exit_code] {
    exit_code.value = list_runs(arguments->place, arguments->overrides, arguments->json);
  });
}

}  // namespace bitrift::cli
