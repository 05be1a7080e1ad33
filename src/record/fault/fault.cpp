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

namespace {

constexpr std::tuple applied_keys = {Key{"tensor", &AppliedFault::tensor},
                                     Key{"role", &AppliedFault::role},
                                     Key{"element", &AppliedFault::element},
                                     Key{"dtype", &AppliedFault::dtype},
                                     Key{"bits", &AppliedFault::bits},
                                     Key{"field", &AppliedFault::field},
                                     Key{"plane", &AppliedFault::plane, Presence::unless_default},
                                     Key{"structure", &AppliedFault::structure, Presence::unless_default}};

// All but the scope, and the kind and the value, which a user may write in another way.
constexpr std::tuple model_keys = {Key{"tensors", &FaultModel::tensors, Presence::defaulted},
                                   Key{"exclude", &FaultModel::exclude, Presence::unless_default},
                                   Key{"roles", &FaultModel::roles, Presence::defaulted},
                                   Key{"layers", &FaultModel::layers, Presence::unless_default},
                                   Key{"element", &FaultModel::element},
                                   Key{"bits", &FaultModel::bits, Presence::defaulted},
                                   Key{"measure", &FaultModel::measure, Presence::defaulted},
                                   Key{"count", &FaultModel::count},
                                   Key{"fraction", &FaultModel::fraction},
                                   Key{"ber", &FaultModel::ber},
                                   Key{"plane", &FaultModel::plane, Presence::defaulted},
                                   Key{"seed", &FaultModel::seed, Presence::defaulted},
                                   Key{"allow_nan", &FaultModel::allow_nan, Presence::defaulted},
                                   Key{"keep_sign", &FaultModel::keep_sign, Presence::defaulted},
                                   Key{"length", &FaultModel::length},
                                   Key{"mask", &FaultModel::mask, Presence::unless_default},
                                   Key{"mask_at", &FaultModel::mask_at},
                                   Key{"factor", &FaultModel::factor},
                                   Key{"ecc", &FaultModel::ecc},
                                   Key{"upset_mode", &FaultModel::upset_mode},
                                   Key{"upset_rates", &FaultModel::upset_rates},
                                   Key{"as", &FaultModel::as, Presence::unless_default}};

}  // namespace

Json to_json(const AppliedFault& fault) {
  Json value = {{"old", pattern_to_json(fault.old_pattern, fault.dtype)},
                {"new", pattern_to_json(fault.new_pattern, fault.dtype)}};
  put_keys(value, fault, applied_keys);
  return value;
}

AppliedFault applied_fault_from_json(const Json& value) {
  AppliedFault fault;
  take_keys(value, fault, applied_keys);
  for (const unsigned bit : fault.bits) {
    if (bit >= 64) fail(ErrorCode::bad_file, "{} has no bit {}", fault.dtype, bit);
  }
  fault.old_pattern = pattern_from_json(value.at("old"));
  fault.new_pattern = pattern_from_json(value.at("new"));
  return fault;
}

Json to_json(const FaultModel& model) {
  Json value = {{"what", model.what}};
  put_keys(value, model, model_keys);
  if (!model.value.empty()) value["value"] = model.value;
  if (!model.scope.all()) value["scope"] = to_json(model.scope);
  return value;
}

FaultModel fault_model_from_json(const Json& value) {
  FaultModel model;
  take_keys(value, model, model_keys);
  if (value.contains("what")) model.what = fault_kind_from_json(value["what"]);
  if (value.contains("value")) {
    const Json& number = value["value"];
    model.value = number.is_string() ? number.get<std::string>() : number.dump();
  }
  if (value.contains("scope")) model.scope = scope_from_json(value["scope"]);
  return model;
}

}  // namespace bitrift::record
