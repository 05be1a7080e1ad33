#include "analyze/variation.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "analyze/rates/stratified.h"

namespace bitrift::analyze {
namespace {

using record::OutcomeClass;
using Counts = std::vector<StratumCount>;

/// One comparison: a line of counts for each level.
struct LevelCounts {
  std::string between, arm, model;
  std::vector<std::map<OutcomeClass, Counts>> levels;
};

// Draws first, first + step, ... of one stratum.
std::map<OutcomeClass, StratumCount> counts_of(const StratumSeen& cell, std::size_t first, std::size_t step) {
  std::map<OutcomeClass, StratumCount> counts;
  for (const OutcomeClass outcome : record::outcome_classes) counts[outcome].bits = cell.bits;
  for (std::size_t draw = first; draw < cell.outcomes.size(); draw += step) {
    for (auto& [outcome, count] : counts) {
      ++count.trials;
      if (record::class_of(cell.outcomes[draw]) == outcome) ++count.hits;
    }
  }
  return counts;
}

// Strata that are not parts of one population are compared one by one.
std::string model_of(const design::CampaignSpec& spec, const std::string& stratum) {
  return spec.strata->pooled() ? "" : stratum;
}

void add(LevelCounts& counted, std::size_t level, const std::map<OutcomeClass, StratumCount>& counts) {
  if (counted.levels.size() <= level) counted.levels.resize(level + 1);
  for (const auto& [outcome, count] : counts) {
    if (count.trials > 0) counted.levels[level][outcome].push_back(count);
  }
}

std::vector<LevelCounts> level_counts_of(const Observations& seen, const design::CampaignSpec& spec) {
  const auto orders = static_cast<std::size_t>(spec.orders);
  std::map<std::pair<std::string, std::string>, LevelCounts> between_orders, between_bases;
  for (const auto& [id, cell] : seen.cells) {
    const std::string& name = id.first;
    const auto arm = std::find_if(spec.arms.begin(), spec.arms.end(),
                                  [&name](const design::Arm& one) { return one.name == name; });
    if (arm == spec.arms.end()) continue;
    const std::string model = model_of(spec, id.second);
    LevelCounts& of_orders = between_orders[{id.first, model}];
    of_orders = {"orders", id.first, model, std::move(of_orders.levels)};
    for (std::size_t order = 0; order < orders; ++order)
      add(of_orders, order, counts_of(cell, order, orders));
    const std::string stem = arm->stem.empty() ? arm->name : arm->stem;
    LevelCounts& of_bases = between_bases[{stem, model}];
    of_bases = {"bases", stem, model, std::move(of_bases.levels)};
    add(of_bases, spec.files.at(arm->file).base, counts_of(cell, 0, 1));
  }
  std::vector<LevelCounts> all;
  if (spec.orders > 1) {
    for (auto& [key, one] : between_orders) all.push_back(std::move(one));
  }
  if (spec.bases.size() > 1) {
    for (auto& [key, one] : between_bases) all.push_back(std::move(one));
  }
  return all;
}

std::optional<Variation> variation_of(const LevelCounts& counted, OutcomeClass outcome) {
  std::size_t strata = 0;
  for (const auto& level : counted.levels) {
    const auto counts = level.find(outcome);
    if (counts != level.end()) strata = std::max(strata, counts->second.size());
  }
  std::vector<LevelRate> rates;
  for (const auto& level : counted.levels) {
    const auto counts = level.find(outcome);
    if (counts == level.end() || counts->second.size() != strata) continue;
    const StratifiedRate rate = stratified_rate(counts->second, 0.95);
    rates.push_back({rate.estimate, rate.variance});
  }
  if (rates.size() < 2) return std::nullopt;
  return Variation{counted.between, counted.arm, counted.model, outcome, rates.size(), between(rates)};
}

}  // namespace

std::vector<Variation> variations_of(const Observations& seen, const design::CampaignSpec& spec) {
  std::vector<Variation> variations;
  for (const LevelCounts& counted : level_counts_of(seen, spec)) {
    for (const OutcomeClass outcome : record::outcome_classes) {
      if (auto found = variation_of(counted, outcome)) variations.push_back(std::move(*found));
    }
  }
  return variations;
}

std::string table(const std::vector<Variation>& variations) {
  std::string text;
  for (const Variation& one : variations) {
    text += fmt::format("{} of {} {}{}{}: {} {:.1f} %, standard deviation {:.1f} points (p = {:.2g})\n",
                        one.between, one.levels, one.arm, one.model.empty() ? "" : " ", one.model,
                        name_of(one.outcome), 100 * one.found.mean, 100 * one.found.deviation, one.found.p);
  }
  if (text.empty()) return "";
  return "\nDifferences between data orders and bases beyond those of the draws (random effects):\n" + text;
}

record::Json to_json(const std::vector<Variation>& variations) {
  record::Json list = record::Json::array();
  for (const Variation& one : variations) {
    list.push_back({{"between", one.between},
                    {"arm", one.arm},
                    {"model", one.model},
                    {"outcome", name_of(one.outcome)},
                    {"levels", one.levels},
                    {"mean", record::number_to_json(one.found.mean)},
                    {"deviation", record::number_to_json(one.found.deviation)},
                    {"q", record::number_to_json(one.found.q)},
                    {"p", record::number_to_json(one.found.p)}});
  }
  return list;
}

}  // namespace bitrift::analyze
