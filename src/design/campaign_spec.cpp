#include "design/campaign_spec.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/ranges.h>

#include "core/byte_size.h"
#include "core/error.h"
#include "design/kind/kinds.h"
#include "design/kind/run/recoveries.h"
#include "record/json/schema.h"
#include "spec/training_parts.h"

namespace bitrift::design {
namespace {

using record::BaseFile;
using record::BaseSpec;
using record::Document;
using record::Json;
using record::Key;
using record::Parallel;
using record::Presence;

std::string pointer_of(const std::string& dotted) {
  std::string pointer = "/";
  for (const char c : dotted) pointer += c == '.' ? '/' : c;
  return pointer;
}

// A value that parses as JSON is used as such; anything else is a string, so that --set name=quick needs no
// quotes.
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
         "--set {}: there is no key '{}' in {}; write it as in the file, with dots: arms.0.name", text, key,
         document.source);
  }
  document.places[pointer] = "--set " + key;
}

// Overrides that choose a part of the document, before others change it.
bool is_scale(const std::string& override_text) {
  return override_text.starts_with("scale=") || override_text.starts_with("scales");
}

// The chosen part of `scales`, merged into the document as RFC 7396 defines it. Neither key stays.
void apply_scale(Document& document, const std::vector<std::string>& overrides) {
  for (const auto& text : overrides) {
    if (is_scale(text)) apply_override(document, text);
  }
  if (!document.value.is_object()) return;
  const Json chosen = document.value.value("scale", Json("full"));
  const Json scales = document.value.value("scales", Json::object());
  if (!chosen.is_string() || !scales.is_object()) return;  // the schema check reports the problem
  const auto name = chosen.get<std::string>();
  if (!scales.contains(name) && name != "full") {
    std::vector<std::string> names = {"full"};
    for (const auto& [key, ignored] : scales.items()) names.push_back(key);
    fail(ErrorCode::bad_input, "{}: scale: there is no '{}' in scales; there are {}",
         document.place("/scale"), name, fmt::join(names, ", "));
  }
  const Json patch = scales.value(name, Json::object());
  document.value.erase("scale");
  document.value.erase("scales");
  document.value.merge_patch(patch);
  const Json places = patch.flatten();
  for (const auto& [pointer, ignored] : places.items()) {
    document.places[pointer] = document.place("/scales/" + name + pointer);
  }
}

void check_scope(const Document& document, const std::string& pointer, const Arm& arm) {
  if (arm.parallel.shard_optimizer && !arm.scope.all()) {
    fail(
        ErrorCode::bad_input,
        "{}: with parallel.shard_optimizer replicas cannot differ, because each parameter comes from the one "
        "replica that updates it; remove scope, or shard_optimizer",
        document.where(pointer));
  }
  const int replicas = arm.parallel.replicas();
  const int needed = arm.scope.replicas.empty() ? arm.scope.count : arm.scope.replicas.back() + 1;
  if (arm.scope.all() || needed <= replicas) return;
  fail(ErrorCode::bad_input, "{}: the arm has {} replica(s), numbered from 0; {}",
       document.where(pointer + "/replicas"), replicas,
       arm.scope.count > 0 ? fmt::format("{} cannot be drawn from them", arm.scope.count)
                           : fmt::format("there is no replica {}", needed - 1));
}

Json to_json(const Arm& arm) {
  Json value = {{"name", arm.stem.empty() ? arm.name : arm.stem}, {"parallel", to_json(arm.parallel)}};
  if (!arm.precision.empty()) value["precision"] = arm.precision;
  if (!arm.scope.all()) value["scope"] = to_json(arm.scope);
  if (arm.guards) value["guards"] = to_json(*arm.guards);
  if (!arm.words.empty()) value["exec"] = arm.words;
  if (arm.recovery != record::RecoverySpec{}) value["recovery"] = to_json(arm.recovery);
  return value;
}

void check_arms(const Document& document, const CampaignSpec& spec) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < spec.arms.size(); ++i) {
    const std::string pointer = "/arms/" + std::to_string(i);
    if (!names.insert(spec.arms[i].name).second) {
      fail(ErrorCode::bad_input, "{}: a second arm is named '{}'; names must differ",
           document.where(pointer + "/name"), spec.arms[i].name);
    }
    check_scope(document, pointer + "/scope", spec.arms[i]);
    const std::string parallel = pointer + "/parallel";
    // With a ready checkpoint the batch size is not known here; the worker checks it before anything trains.
    for (const BaseSpec& base : spec.bases) {
      const int batch = base.train ? base.train->batch_size : 0;
      record::check_parallel(spec.arms[i].parallel, batch, document.where(parallel));
    }
  }
}

// The file from which an arm resumes; a new one when no other arm has it.
std::size_t file_of(CampaignSpec& spec, std::size_t base, const std::string& precision) {
  BaseFile file{base, precision, "base"};
  for (const std::string& part : {spec.bases[base].name, precision}) {
    if (!part.empty()) file.stem += "-" + part;
  }
  for (std::size_t i = 0; i < spec.files.size(); ++i) {
    if (spec.files[i].base == base && spec.files[i].precision == precision) return i;
    if (spec.files[i].stem != file.stem) continue;
    fail(ErrorCode::bad_input, "base: two files of the campaign would be named {}.h5; rename base '{}'",
         file.stem, spec.bases[base].name);
  }
  spec.files.push_back(std::move(file));
  return spec.files.size() - 1;
}

// Crosses every arm with every base. The bases as they were trained come first among the files, because the
// others are made from them.
void cross_arms_with_bases(CampaignSpec& spec) {
  spec.files.clear();
  for (std::size_t base = 0; base < spec.bases.size(); ++base) file_of(spec, base, "");
  std::vector<Arm> arms;
  for (const Arm& written : spec.arms) {
    for (std::size_t base = 0; base < spec.bases.size(); ++base) {
      Arm arm = written;
      arm.stem = written.name;
      if (!spec.bases[base].name.empty()) arm.name += "@" + spec.bases[base].name;
      arm.file = file_of(spec, base, arm.precision);
      arms.push_back(std::move(arm));
    }
  }
  spec.arms = std::move(arms);
}

// The fewest clean runs whose largest score has this level: 1/(n + 1) <= level.
int clean_runs_for(double level) {
  constexpr int least = 20;
  return std::max(least, static_cast<int>(std::ceil(1 / level - 1e-9)) - 1);
}

// The amount that is drawn: exactly one of three keys.
void read_amount(const Document& document, CampaignSpec& spec) {
  const Json& value = document.value;
  spec.exhaustive = value.value("exhaustive", false);
  if (value.contains("trials_per_stratum")) value["trials_per_stratum"].get_to(spec.trials_per_stratum);
  const std::size_t strata = spec.strata->strata().size();
  if (value.contains("sampling")) spec.sampling = record::sampling_from(document, strata, spec.arms.size());
  const int given =
      (spec.trials_per_stratum > 0 ? 1 : 0) + (spec.sampling ? 1 : 0) + (spec.exhaustive ? 1 : 0);
  if (given == 1) return;
  const char* const key = spec.sampling ? "/sampling" : spec.exhaustive ? "/exhaustive" : "";
  fail(ErrorCode::bad_input,
       "{}: {}expected exactly one of 'trials_per_stratum', 'sampling' and 'exhaustive: true', found {}",
       document.place(key), *key == '\0' ? std::string() : record::key_name(key) + ": ", given);
}

// A number of bytes, or a text such as "4G".
std::uint64_t byte_size_from(const Document& document, const std::string& pointer) {
  const Json& value = document.value.at(Json::json_pointer(pointer));
  if (value.is_number()) return value.get<std::uint64_t>();
  try {
    return parse_byte_size(value.get<std::string>());
  } catch (const Error& error) {
    fail(ErrorCode::bad_input, "{}: {}", document.where(pointer), error.what());
  }
}

constexpr std::tuple controls_keys = {Key{"repeats", &CampaignSpec::control_repeats, Presence::defaulted},
                                      Key{"every", &CampaignSpec::check_every, Presence::defaulted},
                                      Key{"orders", &CampaignSpec::orders, Presence::defaulted},
                                      Key{"envelope", &CampaignSpec::envelope_runs, Presence::defaulted},
                                      Key{"held_out", &CampaignSpec::held_out_runs, Presence::defaulted},
                                      Key{"jitter", &CampaignSpec::jitter_runs, Presence::defaulted},
                                      Key{"readers", &CampaignSpec::reader_canaries}};

constexpr std::tuple analysis_keys = {Key{"confidence", &CampaignSpec::confidence, Presence::defaulted},
                                      Key{"judge", &CampaignSpec::judge, Presence::defaulted},
                                      Key{"level", &CampaignSpec::level, Presence::defaulted},
                                      Key{"metrics", &CampaignSpec::metrics, Presence::defaulted}};

constexpr std::tuple worker_keys = {Key{"early_end", &CampaignSpec::early_end, Presence::defaulted},
                                    Key{"deadline_s", &CampaignSpec::deadline_s},
                                    Key{"start_deadline_s", &CampaignSpec::start_deadline_s},
                                    Key{"launch", &CampaignSpec::launch, Presence::unless_default}};

// Reads the requests for controls and analysis. A stored spec without a key for reader canaries belongs to a
// campaign that had none.
void read_judgement(const Document& document, bool stored, CampaignSpec& spec) {
  if (document.value.contains("analysis")) take_keys(document.value["analysis"], spec, analysis_keys);
  std::sort(spec.metrics.begin(), spec.metrics.end());
  spec.envelope_runs = clean_runs_for(spec.level);
  if (stored) spec.reader_canaries.reset();
  if (document.value.contains("controls")) take_keys(document.value["controls"], spec, controls_keys);
}

// Ranks and links fail in campaigns whose arms choose a recovery.
void check_guards(const Document& document, const CampaignSpec& spec) {
  for (const Arm& arm : spec.arms) {
    if (!arm.guards || !arm.guards->replicas || arm.parallel.replicas() > 1) continue;
    fail(ErrorCode::bad_input,
         "{}: arm '{}': the guard replicas compares replicas, and there is one; remove it",
         document.where("/arms"), arm.name);
  }
  if (!spec.strata->recovers()) return;
  for (const Arm& arm : spec.arms) {
    const record::GuardSpec& guards = spec.guards_of(arm);
    if (guards.recompute) {
      fail(ErrorCode::bad_input,
           "{}: arm '{}': the guard recompute does not work where ranks or links fail; remove it",
           document.where(arm.guards ? "/arms" : "/base"), arm.name);
    }
    if (!guards.go_back()) continue;
    fail(ErrorCode::bad_input,
         "{}: arm '{}': guards with on_alarm {} do not act where ranks or links fail; choose record or stop",
         document.where(arm.guards ? "/arms" : "/base"), arm.name, name_of(guards.on_alarm));
  }
}

CampaignSpec from_document(const Document& document, bool stored) {
  const Json& value = document.value;
  CampaignSpec spec;
  value.at("name").get_to(spec.name);
  value.at("seed").get_to(spec.seed);
  spec.bases = record::bases_from(document);
  if (value.contains("resume")) value["resume"].at("epochs").get_to(spec.resume_epochs);
  for (const auto& arm : value.at("arms")) {
    const std::string parallel = "/arms/" + std::to_string(spec.arms.size()) + "/parallel";
    spec.arms.push_back({arm.at("name").get<std::string>(),
                         record::parallel_from_json(arm.at("parallel"), document.where(parallel))});
    Arm& read = spec.arms.back();
    read.precision = arm.value("precision", "");
    if (arm.contains("scope")) read.scope = record::scope_from_json(arm["scope"]);
    if (arm.contains("guards")) {
      const std::string pointer = "/arms/" + std::to_string(spec.arms.size() - 1) + "/guards";
      // With a ready checkpoint the optimizer is not known here; the worker checks it.
      const auto& train = spec.bases.front().train;
      read.guards = record::read_guards(
          record::Part(document, pointer),
          train ? train->optimizer : record::OptimizerSpec{.name = record::OptimizerName::adam});
    }
  }
  spec.strata = strata_from(document, stored);
  const Json none = Json::object();
  const auto section = [&](const char* key) -> const Json& {
    return value.contains(key) ? value[key] : none;
  };
  read_judgement(document, stored, spec);
  take_keys(section("worker"), spec, worker_keys);
  if (section("worker").contains("memory")) spec.memory = byte_size_from(document, "/worker/memory");
  spec.network = section("worker").value("connect", "local") == "network";
  if (value.contains("propagation")) spec.propagation = record::propagation_from(document);
  spec.runner = record::runner_from(document);
  for (std::size_t i = 0; i < spec.arms.size(); ++i)
    spec.arms[i].words = record::runner_words_of(document, i);
  std::vector<Parallel> parallels;
  for (const Arm& arm : spec.arms) parallels.push_back(arm.parallel);
  const auto recoveries = recoveries_from(document, *spec.strata, parallels);
  spec.strata->check(document, parallels, recoveries);
  for (std::size_t i = 0; i < spec.arms.size(); ++i) spec.arms[i].recovery = recoveries[i];
  check_arms(document, spec);
  cross_arms_with_bases(spec);
  check_guards(document, spec);
  read_amount(document, spec);
  return spec;
}

}  // namespace

std::size_t CampaignSpec::arm_index(std::string_view arm_name) const {
  const auto found =
      std::find_if(arms.begin(), arms.end(), [&](const Arm& one) { return one.name == arm_name; });
  if (found != arms.end()) return static_cast<std::size_t>(found - arms.begin());
  std::vector<std::string> names;
  for (const Arm& one : arms) names.push_back(one.name);
  fail(ErrorCode::bad_input, "no arm '{}' in this campaign; there are {}", arm_name, fmt::join(names, ", "));
}

record::GuardSpec CampaignSpec::guards_of(const Arm& arm) const {
  if (arm.guards) return *arm.guards;
  const auto& train = base_of(arm).train;
  return train ? train->guards : record::GuardSpec{};
}

double CampaignSpec::start_deadline() const {
  return start_deadline_s.value_or(runner.kind == record::RunnerKind::train ? 120 : 600);
}

CampaignSpec read_campaign_spec(const std::filesystem::path& path,
                                const std::vector<std::string>& overrides) {
  Document document = record::parse_file(path);
  if (document.value.is_object() && document.value.contains("model") && !document.value.contains("arms")) {
    fail(ErrorCode::bad_input,
         "{}: is a training spec, but a campaign spec is needed: train with `bitrift-train train {}`, or "
         "make it "
         "base.train of a campaign spec (docs/spec.md)",
         path.string(), path.string());
  }
  apply_scale(document, overrides);
  for (const auto& text : overrides) {
    if (!is_scale(text)) apply_override(document, text);
  }
  record::check_schema(document, record::shipped_schema("campaign"));
  CampaignSpec spec = from_document(document, false);
  record::check_bases_exist(document, spec.bases);
  record::check_script_exists(document, spec.runner);
  return spec;
}

Json to_json(const CampaignSpec& spec) {
  Json arms = Json::array();
  for (std::size_t i = 0; i < spec.arms.size(); i += spec.bases.size()) arms.push_back(to_json(spec.arms[i]));
  Json controls = Json::object(), analysis = Json::object(), worker = Json::object();
  put_keys(controls, spec, controls_keys);
  put_keys(analysis, spec, analysis_keys);
  put_keys(worker, spec, worker_keys);
  if (spec.memory) worker["memory"] = *spec.memory;
  if (spec.network) worker["connect"] = "network";
  Json value = {{"name", spec.name},
                {"seed", spec.seed},
                {"base", to_json(spec.bases)},
                {"resume", {{"epochs", spec.resume_epochs}}},
                {"arms", arms},
                {"strata", spec.strata->to_json()},
                {"controls", controls},
                {"analysis", analysis},
                {"worker", worker}};
  if (spec.runner.kind != record::RunnerKind::train) value["runner"] = to_json(spec.runner);
  if (spec.sampling) value["sampling"] = to_json(*spec.sampling);
  if (spec.exhaustive) value["exhaustive"] = true;
  if (spec.propagation) value["propagation"] = to_json(*spec.propagation);
  if (spec.trials_per_stratum > 0) value["trials_per_stratum"] = spec.trials_per_stratum;
  return value;
}

CampaignSpec campaign_spec_from_json(const Json& value) {
  try {
    Document document;
    document.value = value;
    document.source = "the campaign's stored spec";
    record::check_schema(document, record::shipped_schema("campaign"));
    return from_document(document, true);
  } catch (const Error& error) {
    throw Error(ErrorCode::bad_file, error.what());
  }
}

}  // namespace bitrift::design
