#include "record/json/schema.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <regex>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "core/error.h"
#include "core/text/nearest_word.h"

// JSON Schema: valijson decides, and explain() says in plain words what was expected and where.
namespace bitrift::record {

extern const std::map<std::string, std::string, std::less<>> embedded_schemas;  // generated

namespace {

struct Problem {
  std::string pointer;
  std::string text;
};

std::string short_dump(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::string joined(const Json& list) {
  std::string text;
  for (const auto& item : list)
    text += (text.empty() ? "" : ", ") + (item.is_string() ? item.get<std::string>() : item.dump());
  return text;
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_boolean();
  return type == "null" && value.is_null();
}

// type: a name, or a list of names, one of which must fit.
bool has_some_type(const Json& value, const Json& type) {
  if (!type.is_array()) return has_type(value, type.get<std::string>());
  return std::any_of(type.begin(), type.end(),
                     [&](const Json& name) { return has_type(value, name.get<std::string>()); });
}

std::optional<std::string> explain_number(const Json& value, const Json& schema) {
  struct Bound {
    const char* key;
    const char* text;
    bool (*broken)(double value, double bound);
  };
  static constexpr Bound bounds[] = {
      {"minimum", "of at least", [](double v, double b) { return v < b; }},
      {"maximum", "of at most", [](double v, double b) { return v > b; }},
      {"exclusiveMinimum", "more than", [](double v, double b) { return v <= b; }},
      {"exclusiveMaximum", "less than", [](double v, double b) { return v >= b; }},
  };
  for (const auto& bound : bounds) {
    if (schema.contains(bound.key) && bound.broken(value.get<double>(), schema[bound.key].get<double>())) {
      return fmt::format("expected a number {} {}, found {}", bound.text, schema[bound.key].dump(),
                         value.dump());
    }
  }
  return std::nullopt;
}

// The key that a misspelt one was probably meant to be; otherwise all known keys.
std::string unknown_key(const std::string& key, const Json& properties) {
  std::vector<std::string> known;
  for (const auto& [name, unused] : properties.items()) known.push_back(name);
  const std::string nearest = nearest_word(key, known);
  if (!nearest.empty()) return fmt::format("unknown key; did you mean '{}'?", nearest);
  return fmt::format("unknown key; expected one of: {}", joined(Json(known)));
}

std::optional<Problem> explain(const Json& value, const Json& schema, const Json& root,
                               const std::string& pointer);

// The schema of a key that matches a pattern; nullptr where none does.
const Json* schema_by_pattern(const std::string& key, const Json& schema) {
  if (!schema.contains("patternProperties")) return nullptr;
  for (const auto& [pattern, member] : schema["patternProperties"].items()) {
    if (std::regex_search(key, std::regex(pattern))) return &member;
  }
  return nullptr;
}

std::optional<Problem> explain_object(const Json& value, const Json& schema, const Json& root,
                                      const std::string& pointer) {
  const Json none = Json::object();
  const Json& properties = schema.contains("properties") ? schema["properties"] : none;
  const bool closed = schema.contains("additionalProperties") && schema["additionalProperties"] == false;
  for (const auto& [key, member] : value.items()) {
    const std::string child = fmt::format("{}/{}", pointer, key);
    if (!properties.contains(key)) {
      if (const Json* const fits = schema_by_pattern(key, schema)) {
        if (auto problem = explain(member, *fits, root, child)) return problem;
      } else if (closed) {
        return Problem{child, schema.contains("patternProperties")
                                  ? fmt::format("expected {}", schema.value("description", "another key"))
                                  : unknown_key(key, properties)};
      }
      continue;
    }
    if (auto problem = explain(member, properties[key], root, child)) return problem;
  }
  const std::size_t least = schema.value("minProperties", std::size_t{0});
  const std::size_t most = schema.value("maxProperties", value.size());
  if (value.size() < least || value.size() > most) {
    return Problem{
        pointer, fmt::format("expected {} {} key(s), found {}", value.size() < least ? "at least" : "at most",
                             value.size() < least ? least : most, value.size())};
  }
  if (schema.contains("required")) {
    for (const auto& key : schema["required"]) {
      if (!value.contains(key.get<std::string>())) {
        return Problem{pointer, fmt::format("key '{}' is missing", key.get<std::string>())};
      }
    }
  }
  return std::nullopt;
}

std::optional<Problem> explain_array(const Json& value, const Json& schema, const Json& root,
                                     const std::string& pointer) {
  if (schema.contains("minItems") && value.size() < schema["minItems"].get<std::size_t>()) {
    return Problem{pointer, fmt::format("expected at least {} item(s), found {}", schema["minItems"].dump(),
                                        value.size())};
  }
  std::set<Json> seen;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string item = pointer + "/" + std::to_string(i);
    if (schema.contains("items")) {
      if (auto problem = explain(value[i], schema["items"], root, item)) return problem;
    }
    if (schema.value("uniqueItems", false) && !seen.insert(value[i]).second) {
      return Problem{item, fmt::format("{} occurs twice in the list", short_dump(value[i]))};
    }
  }
  return std::nullopt;
}

// The first problem in document order, for the keywords that our schemas use.
std::optional<Problem> explain(const Json& value, const Json& schema, const Json& root,
                               const std::string& pointer) {
  if (schema.contains("$ref")) {
    const auto target = schema["$ref"].get<std::string>();
    return explain(value, root.at(Json::json_pointer(target.substr(1))), root, pointer);
  }
  if (schema.contains("type") && !has_some_type(value, schema["type"])) {
    const Json& type = schema["type"];
    const std::string what = schema.contains("enum") ? "one of: " + joined(schema["enum"])
                             : type.is_array()       ? "one of: " + joined(type)
                                                     : type.get<std::string>();
    return Problem{pointer,
                   fmt::format("expected {}, found {} {}", what, value.type_name(), short_dump(value))};
  }
  if (schema.contains("const") && value != schema["const"]) {
    return Problem{pointer, fmt::format("expected {}, found {}", schema["const"].dump(), short_dump(value))};
  }
  if (schema.contains("enum")) {
    for (const auto& allowed : schema["enum"]) {
      if (allowed == value) return std::nullopt;
    }
    return Problem{pointer,
                   fmt::format("expected one of: {}; found {}", joined(schema["enum"]), short_dump(value))};
  }
  if (value.is_number()) {
    if (const auto text = explain_number(value, schema)) return Problem{pointer, *text};
  }
  if (value.is_string() && schema.contains("minLength") &&
      value.get_ref<const std::string&>().size() < schema["minLength"].get<std::size_t>()) {
    return Problem{pointer, "expected a text, found an empty one"};
  }
  if (value.is_string() && schema.contains("pattern") &&
      !std::regex_search(value.get_ref<const std::string&>(),
                         std::regex(schema["pattern"].get<std::string>()))) {
    return Problem{pointer,
                   fmt::format("expected {}, found {}", schema.value("description", "a text of another form"),
                               short_dump(value))};
  }
  if (value.is_object()) return explain_object(value, schema, root, pointer);
  if (value.is_array()) return explain_array(value, schema, root, pointer);
  return std::nullopt;
}

}  // namespace

void check_schema(const Document& document, const Json& schema, const std::string& pointer) {
  valijson::Schema compiled;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7)
      .populateSchema(valijson::adapters::NlohmannJsonAdapter(schema), compiled);
  const Json& value = document.value.at(Json::json_pointer(pointer));
  valijson::ValidationResults results;
  valijson::Validator validator;
  if (validator.validate(compiled, valijson::adapters::NlohmannJsonAdapter(value), &results)) return;
  if (const auto problem = explain(value, schema, schema, pointer)) {
    fail(ErrorCode::bad_input, "{}: {}", document.where(problem->pointer), problem->text);
  }
  // Parents repeat what their children reported first.
  valijson::ValidationResults::Error first;
  results.popError(first);
  fail(ErrorCode::bad_input, "{}: {}", document.place(pointer), first.description);
}

const Json& shipped_schema(std::string_view name) {
  static std::map<std::string, Json, std::less<>> parsed;
  if (const auto found = parsed.find(name); found != parsed.end()) return found->second;
  const auto text = embedded_schemas.find(name);
  if (text == embedded_schemas.end()) fail(ErrorCode::internal, "no shipped schema '{}'", name);
  return parsed.emplace(std::string(name), Json::parse(text->second)).first->second;
}

}  // namespace bitrift::record
