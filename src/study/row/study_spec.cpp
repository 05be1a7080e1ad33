#include "study/row/study_spec.h"

#include <algorithm>
#include <array>
#include <ranges>

#include "ckpt/container/open_container.h"
#include "core/byte_size.h"
#include "core/error.h"
#include "record/json/schema.h"
#include "study/row/base_checkpoint.h"

namespace bitrift::study {
namespace {

using record::Document;
using record::Json;

std::filesystem::path beside(const Document& document, const std::string& text) {
  // An absolute path replaces what is before it.
  return (std::filesystem::absolute(document.source).parent_path() / text).lexically_normal();
}

// A schema of draft 7 says so only with alternatives, whose messages name no key.
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

DamageSpec damage_from(const Document& document) {
  DamageSpec damage;
  if (!document.value.contains("damage")) return damage;
  const Json& value = document.value["damage"];
  damage.flips = value.value("flips", damage.flips);
  damage.seed = value.value("seed", damage.seed);
  damage.timeout_seconds = value.value("timeout_seconds", damage.timeout_seconds);
  if (value.contains("memory")) {
    try {
      damage.memory = parse_byte_size(value["memory"].get<std::string>());
    } catch (const Error& error) {
      fail(error.code(), "{}: {}", document.where("/damage/memory"), error.what());
    }
  }
  return damage;
}

ReplaySpec replay_spec_from(const Json& spec) {
  ReplaySpec replay;
  if (!spec.contains("replay")) return replay;
  const Json& value = spec["replay"];
  replay.flips = value.value("flips", replay.flips);
  replay.epochs = value.value("epochs", replay.epochs);
  replay.seed = value.value("seed", replay.seed);
  return replay;
}

KillSpec kill_from(const Document& document) {
  KillSpec kill;
  if (document.value.contains("kill")) kill.kills = document.value["kill"].value("kills", kill.kills);
  return kill;
}

StateSpec state_from(const Document& document) {
  StateSpec state;
  if (document.value.contains("state")) state.steps = document.value["state"].value("steps", state.steps);
  return state;
}

CostSpec cost_from(const Document& document) {
  CostSpec cost;
  if (!document.value.contains("cost")) return cost;
  const Json& value = document.value["cost"];
  cost.turns = value.value("turns", cost.turns);
  cost.ranks = value.value("ranks", cost.ranks);
  cost.pause_seconds = value.value("pause_seconds", cost.pause_seconds);
  cost.between_seconds = value.value("between_seconds", cost.between_seconds);
  cost.seed = value.value("seed", cost.seed);
  std::sort(cost.ranks.begin(), cost.ranks.end());
  if (value.contains("cores")) cost.cores = value["cores"].get<int>();
  cost.shard_optimizer = value.value("shard_optimizer", cost.shard_optimizer);
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
    const Json& cluster = value["cluster"];
    cost.cluster = Cluster{cluster.at("bytes").get<std::uint64_t>(), cluster.at("write_all").get<double>(),
                           cluster.at("write_machine").get<double>(),
                           cluster.at("send_machine").get<double>(), cluster.at("ranks_machine").get<int>()};
  }
  for (std::size_t i = 0; value.contains("models") && i < value["models"].size(); ++i)
    cost.models.push_back(training_from(document, fmt::format("/cost/models/{}", i)));
  return cost;
}

PolicySpec policy_from(const Document& document) {
  PolicySpec policy;
  if (!document.value.contains("policy")) return policy;
  const Json& value = document.value["policy"];
  policy.mean_time_between_failures =
      value.value("mean_time_between_failures", policy.mean_time_between_failures);
  policy.lives = value.value("lives", policy.lives);
  policy.factors = value.value("factors", policy.factors);
  policy.modes = choice<record::SaveMode>(value, "modes");
  policy.seed = value.value("seed", policy.seed);
  std::sort(policy.factors.begin(), policy.factors.end());
  return policy;
}

// Every number of ranks must be one of replicas of the base.
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

// Those that take long are run only where they are asked for.
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
  spec.replay = replay_spec_from(document.value);
  spec.kill = kill_from(document);
  spec.state = state_from(document);
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

// What came later is left out where it was not asked for, so that older studies can be resumed.
Json cost_json(const CostSpec& cost) {
  Json models = Json::array();
  for (const record::TrainingSpec& model : cost.models) models.push_back(training_json(model));
  Json value = {{"turns", cost.turns},
                {"ranks", cost.ranks},
                {"models", models},
                {"pause_seconds", cost.pause_seconds},
                {"between_seconds", cost.between_seconds},
                {"seed", cost.seed}};
  if (!cost.shard_optimizer.empty()) value["shard_optimizer"] = cost.shard_optimizer;
  return value;
}

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
  return {
      {"name", spec.name},
      {"base", base},
      {"formats", formats_json(spec.formats)},
      {"writers", spec.writers},
      {"parts", spec.parts},
      {"damage",
       {{"flips", spec.damage.flips},
        {"seed", spec.damage.seed},
        {"timeout_seconds", spec.damage.timeout_seconds},
        {"memory", spec.damage.memory}}},
      {"replay", {{"flips", spec.replay.flips}, {"epochs", spec.replay.epochs}, {"seed", spec.replay.seed}}},
      {"kill", {{"kills", spec.kill.kills}}},
      {"state", {{"steps", spec.state.steps}}},
      {"cost", cost_json(spec.cost)},
      {"policy",
       {{"mean_time_between_failures", spec.policy.mean_time_between_failures},
        {"lives", spec.policy.lives},
        {"factors", spec.policy.factors},
        {"modes", spec.policy.modes},
        {"seed", spec.policy.seed}}},
      {"confidence", spec.confidence}};
}

}  // namespace bitrift::study
