#include "study/row/study_spec.h"

#include <algorithm>
#include <ranges>

#include "ckpt/container/open_container.h"
#include "core/byte_size.h"
#include "core/error.h"
#include "record/json/keys.h"
#include "record/json/schema.h"
#include "study/row/base_checkpoint.h"

namespace bitrift::study {
namespace {

using record::Document;
using record::Json;
using record::Key;
using record::Presence;

std::filesystem::path beside(const Document& document, const std::string& text) {
  // An absolute path replaces the part before it.
  return (std::filesystem::absolute(document.source).parent_path() / text).lexically_normal();
}

// A schema of draft 7 can say so only with alternatives, whose messages name no key.
void check_base_keys(const Document& document) {
  const Json& base = document.value.at("base");
  if (base.contains("train") == base.contains("checkpoint")) {
    fail(ErrorCode::bad_input, "{}: expected exactly one of 'train' and 'checkpoint'",
         document.where("/base"));
  }
  if (base.contains("steps") && !base.contains("train")) {
    fail(ErrorCode::bad_input, "{}: is for base.train; a checkpoint is studied as it is",
         document.where("/base/steps"));
  }
}

record::TrainingSpec training_from(const Document& document, const std::string& pointer) {
  const Json& value = document.value.at(Json::json_pointer(pointer));
  if (value.is_string()) return record::read_training_spec(beside(document, value.get<std::string>()));
  record::check_schema(document, record::shipped_schema("train"), pointer);
  return record::training_spec_from(document, pointer);
}

Json training_json(const record::TrainingSpec& training) {
  Json value = Json::parse(record::to_text(training));
  value["parallel"] = record::to_json(training.parallel);
  return value;
}

void check_precision(const record::TrainingSpec& training, const std::string& where) {
  if (training.precision != record::Precision::bf16) return;
  fail(ErrorCode::unsupported,
       "{}: NumPy has no bfloat16, so npz and h5py cannot hold the state; choose another precision", where);
}

void check_ready(const std::filesystem::path& checkpoint, const std::string& where) {
  try {
    check_precision(read_base(checkpoint).training, checkpoint.string());
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", where, error.what());
  }
}

StudyBase base_from(const Document& document) {
  check_base_keys(document);
  const Json& value = document.value.at("base");
  StudyBase base;
  if (value.contains("steps")) base.steps = value["steps"].get<std::int64_t>();
  if (value.contains("checkpoint")) {
    base.checkpoint = beside(document, value["checkpoint"].get<std::string>());
    const std::string where = document.where("/base/checkpoint");
    if (!std::filesystem::is_regular_file(*base.checkpoint)) {
      fail(ErrorCode::not_found, "{}: no file {}; the path is relative to the spec's folder", where,
           base.checkpoint->string());
    }
    if (const std::string other = ckpt::other_than_hdf5(*base.checkpoint); !other.empty()) {
      fail(ErrorCode::unsupported, "{}: {} is {}; name an HDF5 checkpoint of bitrift", where,
           base.checkpoint->string(), other);
    }
    check_ready(*base.checkpoint, where);
    return base;
  }
  base.train = training_from(document, "/base/train");
  check_precision(*base.train, document.where("/base/train"));
  return base;
}

template <NamedEnum E>
std::vector<E> choice(const Json& value, const char* key) {
  std::vector<E> chosen;
  for (std::size_t i = 0; i < names_of(E{}).words.size(); ++i) {
    const auto one = static_cast<E>(i);
    const auto asked = value.find(key);
    if (asked == value.end() || std::find(asked->begin(), asked->end(), Json(one)) != asked->end())
      chosen.push_back(one);
  }
  return chosen;
}

constexpr std::tuple damage_spec_keys = {
    Key{"flips", &DamageSpec::flips, Presence::defaulted},
    Key{"seed", &DamageSpec::seed, Presence::defaulted},
    Key{"timeout_seconds", &DamageSpec::timeout_seconds, Presence::defaulted}};
constexpr std::tuple replay_spec_keys = {Key{"flips", &ReplaySpec::flips, Presence::defaulted},
                                         Key{"epochs", &ReplaySpec::epochs, Presence::defaulted},
                                         Key{"seed", &ReplaySpec::seed, Presence::defaulted}};
constexpr std::tuple kill_spec_keys = {Key{"kills", &KillSpec::kills, Presence::defaulted}};
constexpr std::tuple state_spec_keys = {Key{"steps", &StateSpec::steps, Presence::defaulted}};
constexpr std::tuple cost_spec_keys = {
    Key{"turns", &CostSpec::turns, Presence::defaulted},
    Key{"ranks", &CostSpec::ranks, Presence::defaulted},
    Key{"shard_optimizer", &CostSpec::shard_optimizer, Presence::unless_default},
    Key{"pause_seconds", &CostSpec::pause_seconds, Presence::defaulted},
    Key{"between_seconds", &CostSpec::between_seconds, Presence::defaulted},
    Key{"seed", &CostSpec::seed, Presence::defaulted}};
constexpr std::tuple cluster_spec_keys = {
    Key{"bytes", &Cluster::bytes}, Key{"write_all", &Cluster::write_all},
    Key{"write_machine", &Cluster::write_machine}, Key{"send_machine", &Cluster::send_machine},
    Key{"ranks_machine", &Cluster::ranks_machine}};
constexpr std::tuple policy_spec_keys = {
    Key{"mean_time_between_failures", &PolicySpec::mean_time_between_failures, Presence::defaulted},
    Key{"lives", &PolicySpec::lives, Presence::defaulted},
    Key{"factors", &PolicySpec::factors, Presence::defaulted},
    Key{"modes", &PolicySpec::modes, Presence::defaulted},
    Key{"seed", &PolicySpec::seed, Presence::defaulted}};

// A section of a spec, or its defaults where the spec does not have it.
template <typename Section, typename Keys>
Section section_from(const Json& spec, const char* name, const Keys& keys) {
  Section section;
  if (spec.contains(name)) take_keys(spec[name], section, keys);
  return section;
}

template <typename Section, typename Keys>
Json section_json(const Section& section, const Keys& keys) {
  Json value = Json::object();
  put_keys(value, section, keys);
  return value;
}

DamageSpec damage_from(const Document& document) {
  auto damage = section_from<DamageSpec>(document.value, "damage", damage_spec_keys);
  const Json::json_pointer memory("/damage/memory");
  if (!document.value.contains(memory)) return damage;
  try {
    damage.memory = parse_byte_size(document.value[memory].get<std::string>());
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", document.where("/damage/memory"), error.what());
  }
  return damage;
}

CostSpec cost_from(const Document& document) {
  auto cost = section_from<CostSpec>(document.value, "cost", cost_spec_keys);
  if (!document.value.contains("cost")) return cost;
  const Json& value = document.value["cost"];
  std::sort(cost.ranks.begin(), cost.ranks.end());
  if (value.contains("cores")) cost.cores = value["cores"].get<int>();
  if (value.contains("cluster")) {
    const auto has = [&](int ranks) {
      return std::find(cost.ranks.begin(), cost.ranks.end(), ranks) != cost.ranks.end();
    };
    if (!has(1) || !has(2) || !value.contains("models")) {
      fail(ErrorCode::bad_input,
           "{}: needs a cost model, which is fitted to 1 and 2 ranks and two sizes; give cost.ranks with 1 "
           "and "
           "2, and cost.models",
           document.where("/cost/cluster"));
    }
    take_keys(value["cluster"], cost.cluster.emplace(), cluster_spec_keys);
  }
  for (std::size_t i = 0; value.contains("models") && i < value["models"].size(); ++i)
    cost.models.push_back(training_from(document, fmt::format("/cost/models/{}", i)));
  return cost;
}

PolicySpec policy_from(const Document& document) {
  auto policy = section_from<PolicySpec>(document.value, "policy", policy_spec_keys);
  if (document.value.contains("policy"))
    policy.modes = choice<record::SaveMode>(document.value["policy"], "modes");
  std::sort(policy.factors.begin(), policy.factors.end());
  return policy;
}

// Every number of ranks must be possible for replicas of the base.
void check_replicas(const Document& document, const StudySpec& spec) {
  if (spec.cost.shard_optimizer.empty()) return;
  const std::string where = document.where("/cost/shard_optimizer");
  if (spec.cost.ranks.back() == 1)
    fail(ErrorCode::bad_input, "{}: replicas are more than one rank; give cost.ranks with 2 or more", where);
  const int batch =
      spec.base.train ? spec.base.train->batch_size : read_base(*spec.base.checkpoint).training.batch_size;
  for (const int ranks : spec.cost.ranks)
    record::check_parallel({.kind = record::ParallelKind::data, .ranks = ranks}, batch, where);
}

// Parts that take long run only if they are requested.
std::vector<StudyPart> parts_from(const Json& value) {
  std::vector<StudyPart> parts = choice<StudyPart>(value, "parts");
  if (value.contains("parts")) return parts;
  if (!value.contains("replay")) std::erase(parts, StudyPart::replay);
  if (!value.contains("cost")) std::erase(parts, StudyPart::cost);
  if (!value.contains("policy")) std::erase(parts, StudyPart::policy);
  return parts;
}

}  // namespace

bool StudySpec::has(StudyPart part) const {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

std::vector<FileKind> StudySpec::kinds() const {
  std::vector<FileKind> kinds;
  for (const FileKind& kind : file_kinds) {
    const bool asked = std::find(formats.begin(), formats.end(), kind.format) != formats.end() &&
                       std::find(writers.begin(), writers.end(), kind.writer) != writers.end();
    if (asked) kinds.push_back(kind);
  }
  return kinds;
}

StudySpec read_study_spec(const std::filesystem::path& path) {
  const Document document = record::parse_file(path);
  record::check_schema(document, record::shipped_schema("checkpoint-study"));
  StudySpec spec;
  spec.name = document.value.at("name").get<std::string>();
  spec.base = base_from(document);
  spec.formats = choice<Format>(document.value, "formats");
  std::erase(spec.formats, Format::raw);
  std::erase(spec.formats, Format::hdf5_parallel);  // timed with hdf5, where there is more than one rank
  spec.writers = choice<FileWriter>(document.value, "writers");
  spec.parts = parts_from(document.value);
  if (spec.has(StudyPart::replay) && !spec.has(StudyPart::damage)) {
    fail(ErrorCode::bad_input, "{}: replay repeats flips of the part damage; add damage to parts",
         document.where("/parts"));
  }
  spec.damage = damage_from(document);
  spec.replay = section_from<ReplaySpec>(document.value, "replay", replay_spec_keys);
  spec.kill = section_from<KillSpec>(document.value, "kill", kill_spec_keys);
  spec.state = section_from<StateSpec>(document.value, "state", state_spec_keys);
  spec.cost = cost_from(document);
  check_replicas(document, spec);
  spec.policy = policy_from(document);
  spec.confidence = document.value.value("confidence", spec.confidence);
  spec.interpreter = document.value.value("interpreter", "");
  // A name without a folder is looked up on PATH.
  if (spec.interpreter.find('/') != std::string::npos)
    spec.interpreter = beside(document, spec.interpreter).string();
  if (spec.kinds().empty()) {
    fail(ErrorCode::bad_input, "{}: bitrift-train writes none of these formats; add native to writers",
         document.where("/formats"));
  }
  return spec;
}

namespace {

// "All formats" is written as the list that older studies have, so that they can be resumed.
std::vector<Format> formats_json(std::vector<Format> formats) {
  const std::array later = {Format::tensorflow, Format::keras};
  const auto is_later = [&](Format one) { return std::ranges::find(later, one) != later.end(); };
  const auto of_files = [](const FileKind& kind) { return kind.format; };
  const auto asked = [&](Format one) { return std::ranges::find(formats, one) != formats.end(); };
  if (std::ranges::all_of(file_kinds, asked, of_files)) std::erase_if(formats, is_later);
  return formats;
}

}  // namespace

Json to_json(const StudySpec& spec) {
  Json base;
  if (spec.base.train) base["train"] = training_json(*spec.base.train);
  if (spec.base.steps) base["steps"] = *spec.base.steps;
  if (spec.base.checkpoint) base["checkpoint"] = spec.base.checkpoint->string();
  Json damage = section_json(spec.damage, damage_spec_keys);
  damage["memory"] = spec.damage.memory;
  Json cost = section_json(spec.cost, cost_spec_keys);
  cost["models"] = Json::array();
  for (const record::TrainingSpec& model : spec.cost.models) cost["models"].push_back(training_json(model));
  return {{"name", spec.name},
          {"base", base},
          {"formats", formats_json(spec.formats)},
          {"writers", spec.writers},
          {"parts", spec.parts},
          {"damage", damage},
          {"replay", section_json(spec.replay, replay_spec_keys)},
          {"kill", section_json(spec.kill, kill_spec_keys)},
          {"state", section_json(spec.state, state_spec_keys)},
          {"cost", cost},
          {"policy", section_json(spec.policy, policy_spec_keys)},
          {"confidence", spec.confidence}};
}

}  // namespace bitrift::study
