#include "record/fault/compute_map.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/number/number_format.h"
#include "record/json/keys.h"

namespace bitrift::record {

constexpr auto keys_of(std::type_identity<ComputeMap::Tensor>) {
  using Tensor = ComputeMap::Tensor;
  return std::tuple(Key{"name", &Tensor::name}, Key{"elements", &Tensor::elements},
                    Key{"dtype", &Tensor::dtype},
                    Key{"differentiable", &Tensor::differentiable, Presence::unless_default},
                    Key{"passes", &Tensor::passes, Presence::unless_default},
                    Key{"trained", &Tensor::trained, Presence::unless_default});
}

namespace {

constexpr std::tuple map_keys = {Key{"steps_per_epoch", &ComputeMap::steps_per_epoch},
                                 Key{"replicas", &ComputeMap::replicas},
                                 Key{"short_steps", &ComputeMap::short_steps, Presence::unless_default},
                                 Key{"may_skip", &ComputeMap::may_skip, Presence::unless_default},
                                 Key{"layers", &ComputeMap::layers},
                                 Key{"parameters", &ComputeMap::parameters}};

bool sound(const ComputeMap::Tensor& tensor) {
  return !tensor.name.empty() && tensor.elements > 0 && tensor.passes > 0 && number_format(tensor.dtype);
}

}  // namespace

std::vector<ComputeMap::Tensor> ComputeMap::at(ComputeSite site) const {
  if (site == ComputeSite::activation) return layers;
  if (site == ComputeSite::parameter) return parameters;
  std::vector<Tensor> found;
  if (site == ComputeSite::gradient) {
    std::ranges::copy_if(layers, std::back_inserter(found), &Tensor::differentiable);
  } else {
    std::ranges::copy_if(parameters, std::back_inserter(found), &Tensor::trained);
  }
  return found;
}

std::vector<std::string> ComputeMap::names_at(ComputeSite site) const {
  std::vector<std::string> names;
  for (const Tensor& tensor : at(site)) names.push_back(tensor.name);
  return names;
}

Json to_json(const ComputeMap& map) {
  Json value = Json::object();
  put_keys(value, map, map_keys);
  return value;
}

ComputeMap compute_map_from_json(const Json& value) {
  try {
    ComputeMap map;
    take_keys(value, map, map_keys);
    const bool steps = map.short_steps >= 0 && map.short_steps < map.steps_per_epoch;
    if (steps && map.replicas >= 1 && std::ranges::all_of(map.layers, sound) &&
        std::ranges::all_of(map.parameters, sound))
      return map;
  } catch (const Json::exception&) {
  }
  fail(ErrorCode::bad_file,
       "computations: expected 'steps_per_epoch', 'replicas', 'layers' and 'parameters' "
       "('name', 'elements' and 'dtype' of each); found {:.200}",
       value.dump());
}

void check_exists(const ComputeFault& fault, const ComputeMap& map) {
  const auto check = [&](const char* what, std::int64_t number, std::int64_t count) {
    if (number < count) return;
    fail(ErrorCode::bad_input, "{}: there is no {} {}; there are 0 to {}", to_text(fault), what, number,
         count - 1);
  };
  const std::vector<ComputeMap::Tensor> tensors = map.at(fault.site);
  const auto named = std::ranges::find(tensors, fault.tensor, &ComputeMap::Tensor::name);
  if (named == tensors.end()) {
    fail(ErrorCode::bad_input, "{}: no {} of that name has such numbers; there are {}", to_text(fault),
         of_layers(fault.site) ? "layer" : "parameter", fmt::join(map.names_at(fault.site), ", "));
  }
  check("replica", fault.replica, map.replicas);
  if (of_layers(fault.site)) check("micro-batch", fault.micro_batch, named->passes);
  check("element", fault.element, named->elements);
  check("bit", fault.bit, static_cast<std::int64_t>(number_format(named->dtype).value().bytes) * 8);
  if (const std::int64_t most = fault.most_elements(named->elements); fault.elements > most) {
    fail(ErrorCode::bad_input, "{}: strikes {} elements, but there are {}", to_text(fault), fault.elements,
         most == named->elements ? std::to_string(most)
                                 : fmt::format("{} that are {} apart", most, fault.stride));
  }
}

}  // namespace bitrift::record
