#include "design/kind/model_strata.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/number/number_format.h"
#include "core/philox.h"
#include "design/kind/bit_strata.h"
#include "inject/alteration.h"
#include "inject/draw/fault_plan.h"

namespace bitrift::design {
namespace {

using record::Json;
using record::TrialKind;

class ModelPopulation final : public Population {
 public:
  ModelPopulation(const record::FaultModel& model, const Setting& setting)
      : bases_(setting.bases), model_(model) {
    // Files with other tensors have other structures, so faults are drawn separately from each base.
    const bool values = model.plane != record::Plane::metadata;
    if (values) first_.emplace_back(inject::population_of(bases_.front(), model));
    for (const ckpt::Reader& base : bases_) {
      if (values) {
        refuse_other_bits(first_.front(), bases_.front(), inject::population_of(base, model), base,
                          inject::Alteration(model).whole());
      }
      static_cast<void>(inject::draw(base, model));  // more than there are, and other faults that cannot be
                                                     // drawn
    }
  }
  [[nodiscard]] std::uint64_t size() const override { return record::unbounded_stratum; }
  [[nodiscard]] record::Faults draw(std::uint64_t key, std::uint64_t number,
                                    std::size_t base) const override {
    record::FaultModel model = model_;
    model.seed = random_u64(key, number, 0);
    return inject::draw(bases_.at(base), model);
  }
  [[nodiscard]] std::vector<std::string> read_tensors() const override {
    if (model_.plane != record::Plane::value) return {};
    return read_tensors_of(first_.front(), bases_.front(), !model_.roles.empty());
  }

 private:
  const std::vector<ckpt::Reader>& bases_;
  record::FaultModel model_;
  std::vector<inject::Population> first_;  // of the first base; empty on the plane metadata
};

std::string value_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::vector<std::string> words;
  for (const Json& one : value) words.push_back(value_text(one));
  return in_words(words, "or");
}

// The keys of a fault model that do not have their defaults: "what flip, bits mantissa, count 10".
std::string model_text(const record::FaultModel& model) {
  const Json defaults = record::to_json(record::FaultModel{});
  std::string text = fmt::format("what {}", name_of(model.what));
  const Json keys = record::to_json(model);
  for (const auto& [key, value] : keys.items()) {
    if (key == "seed" || key == "what") continue;
    if (const auto usual = defaults.find(key); usual != defaults.end() && *usual == value) continue;
    text += fmt::format(", {} {}", key, value_text(value));
  }
  return text;
}

}  // namespace

Json ModelStrata::to_json() const {
  Json list = Json::array();
  for (const StratumModel& one : models) {
    list.push_back(record::to_json(one.model));
    list.back()["name"] = one.name;
    list.back().erase("seed");
  }
  return {{"models", list}};
}

std::vector<record::Stratum> ModelStrata::strata() const {
  std::vector<record::Stratum> list;
  for (const StratumModel& one : models) {
    const auto& roles = one.model.roles;
    list.push_back({one.name, roles.empty() ? "any" : fmt::format("{}", fmt::join(roles, "+")),
                    one.model.bits, record::unbounded_stratum});
  }
  return list;
}

void ModelStrata::check(const record::Document& document, const std::vector<record::Parallel>&,
                        const std::vector<record::RecoverySpec>&) const {
  refuse_totals(document, models.size(), "fault models");
}

std::unique_ptr<const Population> ModelStrata::population(std::size_t index, const Setting& setting) const {
  return std::make_unique<ModelPopulation>(models.at(index).model, setting);
}

const record::FaultModel* ModelStrata::model(const std::string& stratum) const {
  const auto found = std::ranges::find(models, stratum, &StratumModel::name);
  return found == models.end() ? nullptr : &found->model;
}

bool ModelStrata::asks_for(const std::string& tensor, const std::string& role) const {
  return std::ranges::any_of(models, [&](const StratumModel& one) {
    return asked_for(tensor, role, one.model.tensors, one.model.roles);
  });
}

Sentences ModelStrata::sentences(const std::optional<std::uint64_t>&) const {
  Sentences said;
  said.rates = "Each rate is that of a draw of the fault model of its line.";
  said.limits = {
      "The rates are those of the fault models of the spec, whose draws are in the base when a run loads it. "
      "They say nothing about other faults, or faults that strike later in training."};
  std::map<record::UpsetRates, std::vector<std::string>> upsets;  // names of models
  for (const StratumModel& one : models) {
    said.faults[one.name] = "a fault of the model " + one.name;
    said.limits.push_back(fmt::format("Model {}: {}.", one.name, model_text(one.model)));
    if (one.model.what != record::FaultKind::upset) continue;
    upsets[one.model.upset_rates.value_or(record::UpsetRates::transient)].push_back(one.name);
  }
  for (const auto& [rates, names] : upsets) {
    said.limits.push_back(fmt::format(
        "The memory upsets of {} are simulated, with the {} failure rates of DRAM chips in Sridharan and "
        "Liberty (SC 2012). Upsets that a code corrects or reports are not drawn.",
        in_words(names, "and"), name_of(rates)));
  }
  if (models.size() == 1) said.faults[""] = said.faults.begin()->second;
  said.no_map = "A draw of a fault model is a set of faults, so there are no rates by layer and bit.";
  return said;
}

std::string ModelStrata::no_rates_by(const std::string& word) const {
  return fmt::format(
      "the strata of this campaign are fault models, whose draws are sets of faults, so they have no rate by "
      "{}; group by stratum",
      word);
}

Strata model_strata_from(const record::Document& document) {
  std::vector<StratumModel> models;
  std::set<std::string> names;
  for (const Json& value : document.value.at("strata").at("models")) {
    const std::string pointer = "/strata/models/" + std::to_string(models.size());
    const auto refuse = [&](const std::string& key, const std::string& why) {
      fail(ErrorCode::bad_input, "{}: {}", document.where(pointer + key), why);
    };
    StratumModel model{value.at("name").get<std::string>(), record::fault_model_from_json(value)};
    for (const TrialKind prepared :
         {TrialKind::control, TrialKind::envelope, TrialKind::held_out, TrialKind::jitter}) {
      const char* const kind = name_of(prepared);
      if (model.name != kind) continue;
      refuse("/name", fmt::format("'{}' is reserved for runs of the preparation; choose another name", kind));
    }
    if (!names.insert(model.name).second) {
      refuse("/name", fmt::format("a second model is named '{}'; names must differ", model.name));
    }
    const int amounts = (value.contains("count") ? 1 : 0) + (value.contains("fraction") ? 1 : 0) +
                        (value.contains("ber") ? 1 : 0);
    if (amounts != 1) {
      refuse("", fmt::format("expected exactly one of 'count', 'fraction' and 'ber', found {}", amounts));
    }
    try {
      check_bit_field(model.model.bits);
    } catch (const Error& error) {
      refuse("/bits", error.what());
    }
    models.push_back(std::move(model));
  }
  return ModelStrata(std::move(models));
}

}  // namespace bitrift::design
