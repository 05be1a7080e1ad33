#include "record/campaign_spec.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/number_format.h"
#include "record/exec_runner.h"
#include "record/training_parts.h"

namespace bitrift::record {
namespace {

std::string pointer_of(const std::string& dotted) {
  std::string pointer = "/";
  for (const char c : dotted) pointer += c == '.' ? '/' : c;
  return pointer;
}

// A value that parses as JSON is that; anything else is a string, so that --set name=quick needs no quotes.
void apply_override(Document& document, const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail(ErrorCode::bad_input, "--set {}: expected key=value, for example --set trials_per_stratum=4", text);
  }
  const std::string key = text.substr(0, equals);
  const std::string raw = text.substr(equals + 1);
  Json value = Json::parse(raw, nullptr, false);
  if (value.is_discarded()) value = raw;
  const std::string pointer = pointer_of(key);
  try {
    document.value[Json::json_pointer(pointer)] = std::move(value);
  } catch (const Json::exception&) {
    fail(ErrorCode::bad_input,
         "--set {}: '{}' names nothing in {}; write it as in the file, with dots: arms.0.name", text, key,
         document.source);
  }
  document.places[pointer] = "--set " + key;
}

void check_scope(const Document& document, const std::string& pointer, const Arm& arm) {
  const int replicas = arm.parallel.replicas();
  const int needed = arm.scope.replicas.empty() ? arm.scope.count : arm.scope.replicas.back() + 1;
  if (arm.scope.all() || needed <= replicas) return;
  fail(ErrorCode::bad_input, "{}: {}: the arm has {} replica(s), numbered from 0; {}",
       document.place(pointer + "/replicas"), key_name(pointer + "/replicas"), replicas,
       arm.scope.count > 0 ? fmt::format("{} cannot be drawn from them", arm.scope.count)
                           : fmt::format("there is no replica {}", needed - 1));
}

Scope scope_from_json(const Json& value) {
  Scope scope;
  const Json& replicas = value.at("replicas");
  if (replicas.is_number()) {
    scope.count = replicas.get<int>();
  } else {
    scope.replicas = replicas.get<std::vector<int>>();
    std::sort(scope.replicas.begin(), scope.replicas.end());
  }
  return scope;
}

Json to_json(const Arm& arm) {
  Json value = {{"name", arm.name}, {"parallel", to_json(arm.parallel)}};
  if (arm.scope.count > 0) value["scope"] = {{"replicas", arm.scope.count}};
  if (!arm.scope.replicas.empty()) value["scope"] = {{"replicas", arm.scope.replicas}};
  if (arm.guards) value["guards"] = to_json(*arm.guards);
  if (!arm.exec.empty()) value["exec"] = arm.exec;
  return value;
}

void check_arms(const Document& document, const CampaignSpec& spec) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < spec.arms.size(); ++i) {
    const std::string pointer = "/arms/" + std::to_string(i);
    if (!names.insert(spec.arms[i].name).second) {
      fail(ErrorCode::bad_input, "{}: {}: a second arm is named '{}'; names must differ",
           document.place(pointer + "/name"), key_name(pointer + "/name"), spec.arms[i].name);
    }
    check_scope(document, pointer + "/scope", spec.arms[i]);
    const std::string parallel = pointer + "/parallel";
    // With a ready checkpoint the batch size is not known here; the worker checks it before anything trains.
    const int batch = spec.base_train ? spec.base_train->batch_size : 0;
    check_parallel(spec.arms[i].parallel, batch, document.place(parallel) + ": " + key_name(parallel));
  }
}

// Strata partition the targeted bits: a bit in two of them would be counted twice.
void check_fields(const Document& document, const std::vector<std::string>& fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string pointer = "/strata/fields/" + std::to_string(i);
    try {
      check_bit_field(fields[i]);
    } catch (const Error& error) {
      fail(ErrorCode::bad_input, "{}: {}: {}", document.place(pointer), key_name(pointer), error.what());
    }
    for (const char* name : {"float64", "float32", "float16", "bfloat16", "int64", "uint64"}) {
      const NumberFormat format = *number_format(name);
      const auto bits = bit_field(format, fields[i]);
      for (std::size_t j = 0; j < i; ++j) {
        for (const unsigned bit : bit_field(format, fields[j])) {
          if (std::find(bits.begin(), bits.end(), bit) == bits.end()) continue;
          fail(ErrorCode::bad_input, "{}: {}: '{}' and '{}' share bit {} of {}; fields must not overlap",
               document.place(pointer), key_name(pointer), fields[j], fields[i], bit, name);
        }
      }
    }
  }
}

void read_base(const Document& document, CampaignSpec& spec) {
  const Json& base = document.value.at("base");
  if (base.contains("train") == base.contains("checkpoint")) {
    fail(ErrorCode::bad_input, "{}: base: expected exactly one of 'train' and 'checkpoint'",
         document.place("/base"));
  }
  spec.min_test_accuracy = base.value("min_test_accuracy", 0.0);
  if (base.contains("train")) {
    check_schema(document, shipped_schema("train"), "/base/train");
    spec.base_train = training_spec_from(document, "/base/train");
  } else {
    const std::filesystem::path file = base["checkpoint"].get<std::string>();
    const auto folder = std::filesystem::absolute(document.source).parent_path();
    spec.base_checkpoint = (file.is_absolute() ? file : folder / file).lexically_normal();
  }
}

// For a spec as written; the canonical form stands for a campaign that has its own copy.
void check_base_exists(const Document& document, const CampaignSpec& spec) {
  if (spec.base_checkpoint && !std::filesystem::is_regular_file(*spec.base_checkpoint)) {
    fail(ErrorCode::not_found, "{}: base.checkpoint: no file {}; the path is relative to the spec's folder",
         document.place("/base/checkpoint"), spec.base_checkpoint->string());
  }
}

// runner.exec, what the arms add to it, and what makes no sense beside it.
void read_runner(const Document& document, CampaignSpec& spec) {
  const Json& value = document.value;
  const bool exec = value.contains("runner");
  if (exec) spec.exec = exec_words_from(document, "/runner/exec/command");
  for (std::size_t i = 0; i < spec.arms.size(); ++i) {
    const std::string arm = "/arms/" + std::to_string(i);
    for (const char* key : {"/scope", "/guards"}) {
      if (!exec || !value.contains(Json::json_pointer(arm + key))) continue;
      fail(ErrorCode::bad_input,
           "{}: {}: is for bitrift-train; a command of runner.exec loads one file and guards itself",
           document.place(arm + key), key_name(arm + key));
    }
    const std::string pointer = arm + "/exec";
    if (!value.contains(Json::json_pointer(pointer))) continue;
    if (!exec) {
      fail(ErrorCode::bad_input, "{}: {}: words for a command, but there is no runner.exec.command",
           document.place(pointer), key_name(pointer));
    }
    spec.arms[i].exec = exec_words_from(document, pointer);
  }
  if (exec && !spec.launch.empty()) {
    fail(ErrorCode::bad_input,
         "{}: worker.launch: starts the ranks of bitrift-train; with runner.exec the command starts its own",
         document.place("/worker/launch"));
  }
}

// How much is drawn: one key of three.
void read_amount(const Document& document, CampaignSpec& spec) {
  const Json& value = document.value;
  spec.exhaustive = value.value("exhaustive", false);
  if (value.contains("trials_per_stratum")) value["trials_per_stratum"].get_to(spec.trials_per_stratum);
  const std::size_t strata = spec.strata.roles.size() * spec.strata.fields.size();
  if (value.contains("sampling")) spec.sampling = sampling_from(document, strata, spec.arms.size());
  const int given =
      (spec.trials_per_stratum > 0 ? 1 : 0) + (spec.sampling ? 1 : 0) + (spec.exhaustive ? 1 : 0);
  if (given == 1) return;
  const char* const key = spec.sampling ? "/sampling" : spec.exhaustive ? "/exhaustive" : "";
  fail(ErrorCode::bad_input,
       "{}: {}expected exactly one of 'trials_per_stratum', 'sampling' and 'exhaustive: true', found {}",
       document.place(key), *key == '\0' ? std::string() : key_name(key) + ": ", given);
}

CampaignSpec from_document(const Document& document) {
  const Json& value = document.value;
  CampaignSpec spec;
  value.at("name").get_to(spec.name);
  value.at("seed").get_to(spec.seed);
  read_base(document, spec);
  if (value.contains("resume")) value["resume"].at("epochs").get_to(spec.resume_epochs);
  for (const auto& arm : value.at("arms")) {
    const std::string parallel = "/arms/" + std::to_string(spec.arms.size()) + "/parallel";
    spec.arms.push_back(
        {arm.at("name").get<std::string>(),
         parallel_from_json(arm.at("parallel"), document.place(parallel) + ": " + key_name(parallel))});
    Arm& read = spec.arms.back();
    if (arm.contains("scope")) read.scope = scope_from_json(arm["scope"]);
    if (arm.contains("guards")) {
      const std::string pointer = "/arms/" + std::to_string(spec.arms.size() - 1) + "/guards";
      // With a ready checkpoint the optimizer is not known here; the worker checks it.
      read.guards = read_guards(Part(document, pointer),
                                spec.base_train ? spec.base_train->optimizer : OptimizerSpec{.name = "adam"});
    }
  }
  const Json& strata = value.at("strata");
  spec.strata.tensors = strata.value("tensors", spec.strata.tensors);
  strata.at("roles").get_to(spec.strata.roles);
  strata.at("fields").get_to(spec.strata.fields);
  read_amount(document, spec);
  const Json none = Json::object();
  const auto section = [&](const char* key) -> const Json& {
    return value.contains(key) ? value[key] : none;
  };
  spec.control_repeats = section("controls").value("repeats", spec.control_repeats);
  spec.check_every = section("controls").value("every", spec.check_every);
  spec.envelope_runs = section("controls").value("envelope", spec.envelope_runs);
  spec.confidence = section("analysis").value("confidence", spec.confidence);
  spec.judge = section("analysis").value("judge", spec.judge);
  if (section("worker").contains("deadline_s"))
    spec.deadline_s = section("worker")["deadline_s"].get<double>();
  spec.early_end = section("worker").value("early_end", spec.early_end);
  spec.launch = section("worker").value("launch", "");
  read_runner(document, spec);
  check_arms(document, spec);
  check_fields(document, spec.strata.fields);
  return spec;
}

}  // namespace

CampaignSpec read_campaign_spec(const std::filesystem::path& path,
                                const std::vector<std::string>& overrides) {
  Document document = parse_file(path);
  for (const auto& text : overrides) apply_override(document, text);
  check_schema(document, shipped_schema("campaign"));
  CampaignSpec spec = from_document(document);
  check_base_exists(document, spec);
  return spec;
}

Json to_json(const CampaignSpec& spec) {
  Json base = {{"min_test_accuracy", spec.min_test_accuracy}};
  if (spec.base_train) {
    base["train"] = Json::parse(to_text(*spec.base_train));
    base["train"]["parallel"] = to_json(spec.base_train->parallel);
  }
  if (spec.base_checkpoint) base["checkpoint"] = spec.base_checkpoint->string();
  Json arms = Json::array();
  for (const Arm& arm : spec.arms) arms.push_back(to_json(arm));
  Json worker = {{"early_end", spec.early_end}};
  if (spec.deadline_s) worker["deadline_s"] = *spec.deadline_s;
  if (!spec.launch.empty()) worker["launch"] = spec.launch;
  Json value = {
      {"name", spec.name},
      {"seed", spec.seed},
      {"base", base},
      {"resume", {{"epochs", spec.resume_epochs}}},
      {"arms", arms},
      {"strata",
       {{"tensors", spec.strata.tensors}, {"roles", spec.strata.roles}, {"fields", spec.strata.fields}}},
      {"controls",
       {{"repeats", spec.control_repeats}, {"every", spec.check_every}, {"envelope", spec.envelope_runs}}},
      {"analysis", {{"confidence", spec.confidence}, {"judge", spec.judge}}},
      {"worker", worker}};
  if (!spec.exec.empty()) value["runner"] = {{"exec", {{"command", spec.exec}}}};
  if (spec.sampling) value["sampling"] = to_json(*spec.sampling);
  if (spec.exhaustive) value["exhaustive"] = true;
  if (spec.trials_per_stratum > 0) value["trials_per_stratum"] = spec.trials_per_stratum;
  return value;
}

CampaignSpec campaign_spec_from_json(const Json& value) {
  try {
    Document document;
    document.value = value;
    document.source = "the campaign's stored spec";
    check_schema(document, shipped_schema("campaign"));
    return from_document(document);
  } catch (const Error& error) {
    throw Error(ErrorCode::bad_file, error.what());
  }
}

}  // namespace bitrift::record
