#include "analyze/views/propagation_view.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "core/error.h"
#include "core/number/median.h"
#include "core/text/natural_order.h"
#include "record/stratum_name.h"

namespace bitrift::analyze {
namespace {

using record::TrialRecord;

// What a trial says about one tensor: the worst of its replicas.
struct Worst {
  double norm = 0, mean = 0, altered = 0;
  bool nonfinite = false;
};

double or_infinite(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
}

std::map<std::string, Worst> worst_of(const record::StepDrift& drift) {
  std::map<std::string, Worst> tensors;
  for (const record::TensorDrift& tensor : drift.tensors) {
    Worst& worst = tensors[tensor.tensor];
    worst.norm = std::max(worst.norm, or_infinite(tensor.norm));
    worst.mean = std::max(worst.mean, or_infinite(tensor.mean));
    const auto elements = static_cast<double>(std::max<std::uint64_t>(1, tensor.elements));
    worst.altered = std::max(worst.altered, static_cast<double>(tensor.altered) / elements);
    worst.nonfinite = worst.nonfinite || tensor.nonfinite > 0;
  }
  return tensors;
}

Reach reach_of(const std::string& tensor, const std::vector<Worst>& trials) {
  Reach reach;
  reach.tensor = tensor;
  reach.trials = trials.size();
  std::vector<double> norms, means;
  double altered = 0;
  for (const Worst& trial : trials) {
    norms.push_back(trial.norm);
    means.push_back(trial.mean);
    altered += trial.altered;
    reach.nonfinite += trial.nonfinite ? 1 : 0;
  }
  reach.median_norm = median(norms);
  reach.max_norm = *std::max_element(norms.begin(), norms.end());
  reach.median_mean = median(means);
  reach.mean_altered = altered / static_cast<double>(trials.size());
  return reach;
}

ReachGroup group_of(const std::vector<const TrialRecord*>& rows, std::int64_t step) {
  ReachGroup group;
  group.step = step;
  std::map<std::string, std::vector<Worst>> tensors;
  for (const TrialRecord* row : rows) {
    const record::StepDrift* drift = nullptr;
    if (row->result && row->result->propagation) {
      for (const record::StepDrift& one : *row->result->propagation) {
        if (one.step == step) drift = &one;
      }
    }
    if (drift == nullptr) {
      ++group.ended;
      continue;
    }
    ++group.trials;
    group.equal += drift->tensors.empty() ? 1 : 0;
    for (const auto& [tensor, worst] : worst_of(*drift)) tensors[tensor].push_back(worst);
  }
  for (const auto& [tensor, trials] : tensors) group.tensors.push_back(reach_of(tensor, trials));
  // Layer 10 comes after layer 2.
  std::sort(group.tensors.begin(), group.tensors.end(),
            [](const Reach& a, const Reach& b) { return natural_less(a.tensor, b.tensor); });
  return group;
}

std::string origin_of(const TrialRecord& row) {
  std::set<std::string> tensors;
  for (const record::FaultSite& site : row.faults.bits().sites) tensors.insert(site.tensor);
  return tensors.size() == 1 ? *tensors.begin() : fmt::format("{} tensors", tensors.size());
}

// The steps at which states were compared: the requested ones, and the golden run's last.
std::set<std::int64_t> steps_of(const std::vector<TrialRecord>& rows, const std::string& arm,
                                const record::PropagationSpec& asked) {
  std::set<std::int64_t> steps(asked.steps.begin(), asked.steps.end());
  const std::string first_control = record::control_stratum(0);
  for (const TrialRecord& row : rows) {
    const bool golden = row.kind == record::TrialKind::control && row.id.stratum == first_control;
    if (asked.at_end && golden && row.id.arm == arm && row.result) steps.insert(row.result->steps);
  }
  return steps;
}

std::string number_text(double value) { return fmt::format("{:.3g}", value); }

}  // namespace

Propagation propagation_of(const std::vector<TrialRecord>& rows, const design::CampaignSpec& spec,
                           bool by_origin) {
  if (!spec.propagation) {
    fail(ErrorCode::bad_input,
         "campaign '{}' records no propagation; add the key 'propagation' to its spec (docs/propagation.md)",
         spec.name);
  }
  Propagation result;
  result.campaign = spec.name;
  result.asked = *spec.propagation;
  result.by_origin = by_origin;
  std::map<std::pair<std::string, std::string>, std::map<std::uint64_t, const TrialRecord*>> cells;
  for (const TrialRecord& row : rows) {
    if (row.kind == record::TrialKind::trial) cells[{row.id.arm, row.id.stratum}][row.id.draw] = &row;
  }
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<const TrialRecord*>> groups;
  for (const auto& [id, draws] : cells) {
    std::uint64_t next = 0;
    for (const auto& [draw, row] : draws) {
      if (draw != next) {
        ++result.waiting;
        continue;
      }
      ++next;
      if (!spec.propagation->wants_draw(draw)) continue;
      groups[{id.first, id.second, by_origin ? origin_of(*row) : ""}].push_back(row);
    }
  }
  for (const auto& [key, members] : groups) {
    for (const std::int64_t step : steps_of(rows, std::get<0>(key), *spec.propagation)) {
      ReachGroup group = group_of(members, step);
      std::tie(group.arm, group.stratum, group.origin) = key;
      result.groups.push_back(std::move(group));
    }
  }
  return result;
}

std::string table(const Propagation& propagation) {
  std::size_t width = 6;
  for (const ReachGroup& group : propagation.groups) {
    for (const Reach& reach : group.tensors) width = std::max(width, reach.tensor.size());
  }
  std::string text;
  for (const ReachGroup& group : propagation.groups) {
    text += fmt::format("{}{}  {}{}  step {}: {} trials reached it", text.empty() ? "" : "\n", group.arm,
                        group.stratum, group.origin.empty() ? "" : "  in " + group.origin, group.step,
                        group.trials);
    if (group.equal > 0) text += fmt::format(", {} equal the golden run", group.equal);
    if (group.ended > 0) text += fmt::format("; {} ended before", group.ended);
    text += "\n";
    if (group.tensors.empty()) continue;
    text += fmt::format("  {:<{}}  {:>9}  {:>10}  {:>9}  {:>9}  {:>9}  {:>9}\n", "tensor", width, "altered %",
                        "elements %", "norm med.", "norm max", "mean med.", "nonfinite");
    for (const Reach& reach : group.tensors) {
      text += fmt::format("  {:<{}}  {:>9.1f}  {:>10.1f}  {:>9}  {:>9}  {:>9}  {:>9}\n", reach.tensor, width,
                          100 * static_cast<double>(reach.trials) / static_cast<double>(group.trials),
                          100 * reach.mean_altered, number_text(reach.median_norm),
                          number_text(reach.max_norm), number_text(reach.median_mean), reach.nonfinite);
    }
  }
  text +=
      "\naltered: trials that reached the step and whose tensor differs from the golden run's. Of those:\n"
      "elements: mean share that differs; norm: median and maximum of ||a2-a1||/||a1||; mean: median of the\n"
      "mean |a2-a1|/|a1|; nonfinite: trials in which it holds a NaN or an infinity. The worst replica "
      "counts.\n";
  if (propagation.waiting > 0) {
    text += fmt::format("{} rows are excluded until every earlier draw has finished.\n", propagation.waiting);
  }
  return text;
}

record::Json to_json(const Propagation& propagation) {
  record::Json groups = record::Json::array();
  for (const ReachGroup& group : propagation.groups) {
    record::Json tensors = record::Json::array();
    for (const Reach& reach : group.tensors) {
      tensors.push_back({{"tensor", reach.tensor},
                         {"trials", reach.trials},
                         {"nonfinite", reach.nonfinite},
                         {"median_norm", record::number_to_json(reach.median_norm)},
                         {"max_norm", record::number_to_json(reach.max_norm)},
                         {"median_mean", record::number_to_json(reach.median_mean)},
                         {"mean_altered", reach.mean_altered}});
    }
    record::Json value = {{"arm", group.arm},       {"stratum", group.stratum}, {"step", group.step},
                          {"trials", group.trials}, {"ended", group.ended},     {"equal", group.equal},
                          {"tensors", tensors}};
    if (propagation.by_origin) value["origin"] = group.origin;
    groups.push_back(std::move(value));
  }
  return {{"schema", "bitrift/propagation/1"},
          {"campaign", propagation.campaign},
          {"asked", record::to_json(propagation.asked)},
          {"waiting", propagation.waiting},
          {"groups", groups}};
}

}  // namespace bitrift::analyze
