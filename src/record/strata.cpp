#include "record/strata.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/number/number_format.h"

namespace bitrift::record {
namespace {

// Strata partition the targeted bits: a bit in two of them would be counted twice.
void check_fields(const Document& document, const std::string& list, const std::vector<std::string>& fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string pointer = list + "/" + std::to_string(i);
    try {
      check_bit_field(fields[i]);
    } catch (const Error& error) {
      fail(ErrorCode::bad_input, "{}: {}", document.where(pointer), error.what());
    }
    for (const char* name : {"float64", "float32", "float16", "bfloat16", "int64", "uint64"}) {
      const NumberFormat format = *number_format(name);
      const auto bits = bit_field(format, fields[i]);
      for (std::size_t j = 0; j < i; ++j) {
        for (const unsigned bit : bit_field(format, fields[j])) {
          if (std::find(bits.begin(), bits.end(), bit) == bits.end()) continue;
          fail(ErrorCode::bad_input, "{}: '{}' and '{}' share bit {} of {}; fields must not overlap",
               document.where(pointer), fields[j], fields[i], bit, name);
        }
      }
    }
  }
}

std::vector<StratumModel> models_from(const Document& document) {
  std::vector<StratumModel> models;
  std::set<std::string> names;
  for (const Json& value : document.value.at("strata").at("models")) {
    const std::string pointer = "/strata/models/" + std::to_string(models.size());
    const auto refuse = [&](const std::string& key, const std::string& why) {
      fail(ErrorCode::bad_input, "{}: {}", document.where(pointer + key), why);
    };
    StratumModel model{value.at("name").get<std::string>(), fault_model_from_json(value)};
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
  return models;
}

Json to_json(const StratumModel& model) {
  Json value = to_json(model.model);
  value["name"] = model.name;
  value.erase("seed");
  return value;
}

}  // namespace

StrataKind StrataSpec::kind() const noexcept {
  if (process) return StrataKind::process;
  if (wire) return StrataKind::wire;
  if (link) return StrataKind::link;
  return models.empty() ? StrataKind::bits : StrataKind::models;
}

std::vector<Stratum> strata_of(const StrataSpec& spec) {
  std::vector<Stratum> strata;
  for (const std::string& role : spec.roles) {
    for (const std::string& field : spec.fields) strata.push_back({role + "." + field, role, field, 0});
  }
  for (const StratumModel& one : spec.models) {
    const auto& roles = one.model.roles;
    strata.push_back({one.name, roles.empty() ? "any" : fmt::format("{}", fmt::join(roles, "+")),
                      one.model.bits, unbounded_stratum});
  }
  if (spec.wire) {
    for (const MessageKind kind : spec.wire->kinds) {
      for (const std::string& field : spec.wire->fields)
        strata.push_back({fmt::format("{}.{}", name_of(kind), field), name_of(kind), field, 0});
    }
  }
  if (spec.link) {
    for (const LinkFailure kind : spec.link->kinds)
      strata.push_back({fmt::format("link.{}", name_of(kind)), "link", name_of(kind), 0});
  }
  if (!spec.process) return strata;
  for (const TrainingPhase phase : spec.process->phases)
    strata.push_back({fmt::format("process.{}", name_of(phase)), "process", name_of(phase), 0});
  return strata;
}

StrataSpec strata_from(const Document& document) {
  const Json& value = document.value.at("strata");
  StrataSpec strata;
  const bool cells = value.contains("roles") || value.contains("fields");
  const bool models = value.contains("models");
  const bool process = value.contains("process"), wire = value.contains("wire"),
             link = value.contains("link");
  if ((cells ? 1 : 0) + (models ? 1 : 0) + (process ? 1 : 0) + (wire ? 1 : 0) + (link ? 1 : 0) != 1) {
    fail(ErrorCode::bad_input,
         "{}: strata: expected either 'roles' and 'fields', or 'models', or 'process', or 'wire', or "
         "'link'",
         document.place("/strata"));
  }
  if (!cells && value.contains("tensors")) {
    fail(ErrorCode::bad_input, "{}: strata.tensors: {}; remove the key", document.place("/strata/tensors"),
         models    ? "with models each of them names its own tensors"
         : process ? "ranks that fail alter no tensor"
         : wire    ? "links alter messages of gradients and no tensor"
                   : "links that fail alter no tensor");
  }
  if (link) {
    strata.link = link_strata_from(document);
    return strata;
  }
  if (wire) {
    strata.wire = wire_strata_from(document);
    check_fields(document, "/strata/wire/fields", strata.wire->fields);
    return strata;
  }
  if (process) {
    strata.process = process_strata_from(document);
    return strata;
  }
  if (models) {
    strata.models = models_from(document);
    return strata;
  }
  for (const char* key : {"roles", "fields"}) {
    if (value.contains(key)) continue;
    fail(ErrorCode::bad_input, "{}: strata: '{}' is missing; each role x field is a stratum",
         document.place("/strata"), key);
  }
  strata.tensors = value.value("tensors", strata.tensors);
  value.at("roles").get_to(strata.roles);
  value.at("fields").get_to(strata.fields);
  check_fields(document, "/strata/fields", strata.fields);
  return strata;
}

Json to_json(const StrataSpec& strata) {
  if (strata.process) return {{"process", to_json(*strata.process)}};
  if (strata.link) return {{"link", to_json(*strata.link)}};
  if (strata.wire) return {{"wire", to_json(*strata.wire)}};
  if (strata.models.empty())
    return {{"tensors", strata.tensors}, {"roles", strata.roles}, {"fields", strata.fields}};
  Json models = Json::array();
  for (const StratumModel& model : strata.models) models.push_back(to_json(model));
  return {{"models", models}};
}

}  // namespace bitrift::record
