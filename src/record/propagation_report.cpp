#include "record/propagation_report.h"

#include <algorithm>
#include <bit>
#include <map>

#include "core/error.h"

namespace bitrift::record {
namespace {

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool alike(const TensorDrift& a, const TensorDrift& b) {
  return a.elements == b.elements && a.altered == b.altered && a.nonfinite == b.nonfinite &&
         same_bits(a.norm, b.norm) && same_bits(a.mean, b.mean) && same_bits(a.max, b.max);
}

Json column(const StepDrift& drift, std::uint64_t TensorDrift::*member) {
  Json values = Json::array();
  for (const TensorDrift& tensor : drift.tensors) values.push_back(tensor.*member);
  return values;
}

Json column(const StepDrift& drift, double TensorDrift::*member) {
  Json values = Json::array();
  for (const TensorDrift& tensor : drift.tensors) values.push_back(number_to_json(tensor.*member));
  return values;
}

}  // namespace

PropagationSpec propagation_from(const Document& document) {
  auto spec = document.value.at("propagation").get<PropagationSpec>();
  std::sort(spec.steps.begin(), spec.steps.end());
  if (spec.steps.empty() && !spec.at_end) {
    fail(ErrorCode::bad_input, "{}: nothing to compare; name steps, or leave 'final' on",
         document.where("/propagation"));
  }
  return spec;
}

void to_json(Json& value, const StepDrift& drift) {
  value = {{"step", drift.step},
           {"tensors", Json::array()},
           {"elements", column(drift, &TensorDrift::elements)},
           {"altered", column(drift, &TensorDrift::altered)},
           {"nonfinite", column(drift, &TensorDrift::nonfinite)},
           {"norm", column(drift, &TensorDrift::norm)},
           {"mean", column(drift, &TensorDrift::mean)},
           {"max", column(drift, &TensorDrift::max)}};
  Json replicas = Json::array();
  bool any = false;
  for (const TensorDrift& tensor : drift.tensors) {
    value["tensors"].push_back(tensor.tensor);
    replicas.push_back(tensor.replica ? Json(*tensor.replica) : Json());
    any = any || tensor.replica.has_value();
  }
  if (any) value["replica"] = std::move(replicas);
}

void from_json(const Json& value, StepDrift& drift) {
  drift.tensors.clear();
  value.at("step").get_to(drift.step);
  const Json& tensors = value.at("tensors");
  for (const auto& [key, member] : value.items()) {
    if (key == "step" || (member.is_array() && member.size() == tensors.size())) continue;
    fail(ErrorCode::bad_file, "propagation after step {}: '{}' must hold {} values, one for each tensor",
         drift.step, key, tensors.size());
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    TensorDrift& tensor = drift.tensors.emplace_back();
    tensors[i].get_to(tensor.tensor);
    value.at("elements")[i].get_to(tensor.elements);
    value.at("altered")[i].get_to(tensor.altered);
    value.at("nonfinite")[i].get_to(tensor.nonfinite);
    tensor.norm = number_from_json(value.at("norm")[i]);
    tensor.mean = number_from_json(value.at("mean")[i]);
    tensor.max = number_from_json(value.at("max")[i]);
    if (value.contains("replica") && !value["replica"][i].is_null())
      tensor.replica = value["replica"][i].get<int>();
  }
}

std::vector<StepDrift> merged(const std::vector<std::vector<StepDrift>>& replicas) {
  std::vector<StepDrift> all;
  for (std::size_t at = 0; at < replicas.at(0).size(); ++at) {
    std::map<std::string, std::vector<TensorDrift>> found;
    for (std::size_t r = 0; r < replicas.size(); ++r) {
      for (TensorDrift tensor : replicas[r].at(at).tensors) {
        if (replicas.size() > 1) tensor.replica = static_cast<int>(r);
        found[tensor.tensor].push_back(std::move(tensor));
      }
    }
    StepDrift& step = all.emplace_back();
    step.step = replicas[0][at].step;
    for (auto& entry : found) {
      std::vector<TensorDrift>& drifts = entry.second;
      const bool once =
          drifts.size() == replicas.size() &&
          std::all_of(drifts.begin(), drifts.end(), [&](const auto& one) { return alike(one, drifts[0]); });
      if (once) {
        drifts.resize(1);
        drifts[0].replica.reset();
      }
      step.tensors.insert(step.tensors.end(), drifts.begin(), drifts.end());
    }
  }
  return all;
}

}  // namespace bitrift::record
