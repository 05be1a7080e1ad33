#include "record/fault/fault.h"

#include <charconv>

#include "core/error.h"

namespace bitrift::record {

Json pattern_to_json(std::uint64_t pattern, const std::string& dtype) {
  const auto format = number_format(dtype);
  return fmt::format("0x{:0{}x}", pattern, format ? format->bytes * 2 : 16);
}

std::uint64_t pattern_from_json(const Json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();  // Python's manifests
  if (!value.is_string())
    fail(ErrorCode::bad_file, "{} is not a bit pattern such as 0x3f800000", value.dump());
  const auto& text = value.get_ref<const std::string&>();
  std::uint64_t pattern = 0;
  const char* const end = text.data() + text.size();
  if (text.size() > 2 && text.starts_with("0x")) {
    const auto [rest, error] = std::from_chars(text.data() + 2, end, pattern, 16);
    if (error == std::errc{} && rest == end) return pattern;
  }
  fail(ErrorCode::bad_file, "'{}' is not a bit pattern such as 0x3f800000", text);
}

namespace {

FaultKind fault_kind_from_json(const Json& value) {
  const auto name = value.get<std::string>();
  if (const auto kind = find_fault_kind(name)) return *kind;
  return parse_named<FaultKind>(name);
}

}  // namespace

std::optional<FaultKind> find_fault_kind(std::string_view name) noexcept {
  return name == "nullify" ? FaultKind::zero : find_named<FaultKind>(name);
}

bool names_byte(Plane plane, std::string_view structure) noexcept {
  return plane == Plane::metadata || (plane == Plane::storage && structure.starts_with("raw chunk "));
}

Json to_json(const AppliedFault& fault) {
  Json value = {{"tensor", fault.tensor},
                {"role", fault.role},
                {"element", fault.element},
                {"dtype", fault.dtype},
                {"bits", fault.bits},
                {"field", fault.field},
                {"old", pattern_to_json(fault.old_pattern, fault.dtype)},
                {"new", pattern_to_json(fault.new_pattern, fault.dtype)}};
  if (fault.plane != Plane::value) value["plane"] = fault.plane;
  if (!fault.structure.empty()) value["structure"] = fault.structure;
  return value;
}

AppliedFault applied_fault_from_json(const Json& value) {
  AppliedFault fault;
  value.at("tensor").get_to(fault.tensor);
  value.at("role").get_to(fault.role);
  value.at("element").get_to(fault.element);
  value.at("dtype").get_to(fault.dtype);
  value.at("bits").get_to(fault.bits);
  for (const unsigned bit : fault.bits) {
    if (bit >= 64) fail(ErrorCode::bad_file, "{} has no bit {}", fault.dtype, bit);
  }
  value.at("field").get_to(fault.field);
  fault.old_pattern = pattern_from_json(value.at("old"));
  fault.new_pattern = pattern_from_json(value.at("new"));
  fault.plane = value.value("plane", fault.plane);
  fault.structure = value.value("structure", "");
  return fault;
}

Json to_json(const FaultModel& model) {
  Json value = {{"tensors", model.tensors}, {"roles", model.roles},         {"bits", model.bits},
                {"what", model.what},       {"measure", model.measure},     {"plane", model.plane},
                {"seed", model.seed},       {"allow_nan", model.allow_nan}, {"keep_sign", model.keep_sign}};
  if (model.count) value["count"] = *model.count;
  if (model.fraction) value["fraction"] = *model.fraction;
  if (model.ber) value["ber"] = *model.ber;
  if (!model.layers.empty()) value["layers"] = model.layers;
  if (model.element) value["element"] = *model.element;
  if (model.length) value["length"] = *model.length;
  if (!model.mask.empty()) value["mask"] = model.mask;
  if (model.mask_at) value["mask_at"] = *model.mask_at;
  if (model.factor) value["factor"] = *model.factor;
  if (!model.value.empty()) value["value"] = model.value;
  if (!model.as.empty()) value["as"] = model.as;
  if (!model.scope.all()) value["scope"] = to_json(model.scope);
  return value;
}

FaultModel fault_model_from_json(const Json& value) {
  FaultModel model;
  model.tensors = value.value("tensors", model.tensors);
  model.roles = value.value("roles", model.roles);
  model.layers = value.value("layers", model.layers);
  model.bits = value.value("bits", model.bits);
  if (value.contains("what")) model.what = fault_kind_from_json(value["what"]);
  model.measure = value.value("measure", model.measure);
  model.plane = value.value("plane", model.plane);
  model.seed = value.value("seed", model.seed);
  model.allow_nan = value.value("allow_nan", model.allow_nan);
  model.keep_sign = value.value("keep_sign", model.keep_sign);
  if (value.contains("count")) model.count = value["count"].get<std::uint64_t>();
  if (value.contains("fraction")) model.fraction = value["fraction"].get<double>();
  if (value.contains("ber")) model.ber = value["ber"].get<double>();
  if (value.contains("element")) model.element = value["element"].get<std::uint64_t>();
  if (value.contains("length")) model.length = value["length"].get<unsigned>();
  model.mask = value.value("mask", model.mask);
  if (value.contains("mask_at")) model.mask_at = value["mask_at"].get<MaskPlace>();
  if (value.contains("factor")) model.factor = value["factor"].get<double>();
  if (value.contains("value")) {
    const Json& number = value["value"];
    model.value = number.is_string() ? number.get<std::string>() : number.dump();
  }
  model.as = value.value("as", model.as);
  if (value.contains("scope")) model.scope = scope_from_json(value["scope"]);
  return model;
}

}  // namespace bitrift::record
