#include "analyze/guards/guard_actions.h"

#include <algorithm>

#include "analyze/verdict/classify.h"
#include "analyze/views/counted_rows.h"
#include "record/stratum_name.h"

namespace bitrift::analyze {
namespace {

using record::Json;
using record::OutcomeClass;
using record::TrialKind;
using record::TrialRecord;

// The test metrics of a run. Its final state may hold what guards remember.
Json tests_of(const record::RunResult& result) {
  std::vector<std::vector<record::Evaluation>> all = result.replicas;
  for (std::vector<record::Evaluation>& replica : all) {
    for (record::Evaluation& evaluation : replica) evaluation.train_loss = evaluation.train_accuracy = {};
  }
  return all;
}

// Those of an arm's golden runs, by data order.
std::map<int, Json> golden_tests(const std::vector<TrialRecord>& rows, const std::string& arm) {
  std::map<int, Json> tests;
  for (const TrialRecord& row : rows) {
    if (row.id == record::TrialId{arm, record::control_stratum(row.order), 0} && row.result)
      tests.emplace(row.order, tests_of(*row.result));
  }
  return tests;
}

template <typename Use>
void each_share(GuardActions& actions, const Use& use) {
  for (auto& [outcome, share] : actions.recovered) use(share);
  for (auto& [outcome, share] : actions.exactly) use(share);
  for (auto& [role, share] : actions.roles) use(share);
  use(actions.harmed);
  use(actions.clean_acted);
  use(actions.clean_harmed);
}

}  // namespace

std::vector<const TrialRecord*> clean_rows(const std::vector<TrialRecord>& rows, const std::string& arm) {
  std::vector<const TrialRecord*> clean;
  for (const TrialRecord& row : rows) {
    if (row.id.arm != arm || !row.result) continue;
    const bool golden =
        row.kind == TrialKind::control && row.id.draw == 0 && row.id.stratum != record::zero_step_stratum;
    if (golden || row.kind == TrialKind::envelope || row.kind == TrialKind::held_out) clean.push_back(&row);
  }
  return clean;
}

GuardActions guard_actions_of(const std::vector<TrialRecord>& rows, const design::CampaignSpec& spec,
                              const Trust& trust, const std::string& arm, const std::string& plain) {
  const ArmControls& limits = trust.controls.at(plain);
  const auto outcome_of = [&](const TrialRecord& row) {
    return classify(row, limits, trust.judging).outcome_class();
  };
  const std::map<int, Json> golden = golden_tests(rows, plain);
  GuardActions actions;
  for (const OutcomeClass outcome : {OutcomeClass::sdc, OutcomeClass::crash}) {
    actions.recovered[outcome];
    actions.exactly[outcome];
  }
  auto without = counted_rows(rows, plain);
  auto with = counted_rows(rows, arm);
  for (const record::Stratum& stratum : spec.strata->strata()) {
    const std::size_t draws = std::min(without[stratum.name].size(), with[stratum.name].size());
    for (std::size_t draw = 0; draw < draws; ++draw) {
      const TrialRecord& row = *with[stratum.name][draw];
      const OutcomeClass there = outcome_of(*without[stratum.name][draw]);
      const bool masked = outcome_of(row) == OutcomeClass::masked;
      if (there == OutcomeClass::masked) {
        actions.harmed.add(!masked);
        continue;
      }
      actions.recovered[there].add(masked);
      actions.roles[stratum.role].add(masked);
      const auto clean = golden.find(row.order);
      actions.exactly[there].add(clean != golden.end() && row.result &&
                                 tests_of(*row.result) == clean->second);
    }
  }
  for (const TrialRecord* row : clean_rows(rows, arm)) {
    actions.clean_acted.add(row->result->guard_action_count > 0);
    actions.clean_harmed.add(outcome_of(*row) != OutcomeClass::masked);
  }
  each_share(actions, [&](Share& share) { share.close(spec.confidence); });
  return actions;
}

Json to_json(const GuardActions& actions) {
  Json value = Json::object();
  for (const auto& [outcome, share] : actions.recovered)
    value["recovered"][name_of(outcome)] = to_json(share, "count");
  for (const auto& [outcome, share] : actions.exactly)
    value["exactly"][name_of(outcome)] = to_json(share, "count");
  value["roles"] = Json::object();
  for (const auto& [role, share] : actions.roles) value["roles"][role] = to_json(share, "count");
  value["harmed"] = to_json(actions.harmed, "count");
  value["clean_acted"] = to_json(actions.clean_acted, "count");
  value["clean_harmed"] = to_json(actions.clean_harmed, "count");
  return value;
}

std::vector<std::vector<std::string>> role_lines_of(
    const std::vector<std::pair<std::string, GuardActions>>& named) {
  std::vector<std::vector<std::string>> lines = {{"guard that acts", "role", "recovered SDC or crash %"}};
  for (const auto& [name, actions] : named) {
    for (const auto& [role, share] : actions.roles) lines.push_back({name, role, text_of(share)});
  }
  return lines;
}

std::vector<std::vector<std::string>> lines_of(
    const std::vector<std::pair<std::string, GuardActions>>& named) {
  std::vector<std::vector<std::string>> lines = {{"guard that acts", "recovered SDC %", "exactly",
                                                  "recovered crash %", "exactly", "harmed masked %",
                                                  "acted on clean %", "harmed clean %"}};
  for (const auto& [name, actions] : named) {
    lines.push_back({name});
    for (const OutcomeClass outcome : {OutcomeClass::sdc, OutcomeClass::crash}) {
      lines.back().push_back(text_of(actions.recovered.at(outcome)));
      lines.back().push_back(std::to_string(actions.exactly.at(outcome).count));
    }
    for (const Share* share : {&actions.harmed, &actions.clean_acted, &actions.clean_harmed})
      lines.back().push_back(text_of(*share));
  }
  return lines;
}

}  // namespace bitrift::analyze
