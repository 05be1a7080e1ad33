#include "study/row/study_row.h"

#include <charconv>
#include <system_error>

#include "core/error.h"

namespace bitrift::study {
namespace {

using record::Json;

Json fault_json(const BitFault& fault) {
  return {{"file", fault.file}, {"byte", fault.byte}, {"bit", fault.bit}, {"structure", fault.structure}};
}

BitFault fault_from(const Json& value) {
  return {value.at("file").get<std::string>(), value.at("byte").get<std::uint64_t>(),
          value.at("bit").get<int>(), value.at("structure").get<std::string>()};
}

void put(Json& row, const SizeResult& size) {
  row["bytes"] = size.bytes;
  row["payload_bytes"] = size.payload_bytes;
  row["tensor_bytes"] = size.tensor_bytes;
  row["parameters"] = size.parameters;
}

void put(Json& row, const DeterminismResult& saves) {
  row["equal"] = saves.equal;
  row["first_bytes"] = saves.first_bytes;
  row["second_bytes"] = saves.second_bytes;
  row["differing_bytes"] = saves.differing_bytes;
  if (saves.first_difference) row["first_difference"] = fault_json(*saves.first_difference);
}

void put(Json& row, const DamageResult& damage) {
  if (damage.canary) {
    row["canary"] = *damage.canary;
  } else {
    row["stratum"] = damage.stratum;
    row["draw"] = damage.draw;
    row["fault"] = fault_json(damage.fault.value());
  }
  row["outcome"] = damage.outcome;
  row["message"] = damage.message;
  if (damage.outcome == DamageOutcome::silently_wrong) row["missing"] = damage.missing;
}

void put(Json& row, const ReplayResult& replay) {
  row["draw"] = replay.draw;
  if (!replay.change || !replay.reason) return;
  row["change"] = {{"tensor", replay.change->tensor},
                   {"element", replay.change->element},
                   {"mask", fmt::format("{:#x}", replay.change->mask)}};
  row["outcome"] = record::class_of(*replay.reason);
  row["reason"] = *replay.reason;
}

ReplayResult replay_from(const Json& value) {
  ReplayResult replay{value.at("draw").get<std::uint64_t>()};
  if (!value.contains("change")) return replay;
  replay.change = change_from_json(value["change"]);
  replay.reason = value.at("reason").get<record::Reason>();
  return replay;
}

void put(Json& row, const KillResult& kill) {
  row["call"] = kill.call;
  row["half"] = kill.half;
  row["calls"] = kill.calls;
  if (kill.call == 0) row["points"] = kill.points;
  row["outcome"] = kill.outcome;
  row["message"] = kill.message;
  row["left"] = kill.left;
}

KillResult kill_from(const Json& value) {
  return {value.at("call").get<std::uint64_t>(),
          value.at("half").get<bool>(),
          value.at("calls").get<std::vector<std::string>>(),
          value.value("points", std::uint64_t{0}),
          value.at("outcome").get<KillOutcome>(),
          value.at("message").get<std::string>(),
          value.at("left").get<std::uint64_t>()};
}

template <typename T>
void put_optional(Json& row, const char* key, const std::optional<T>& value) {
  if (value) row[key] = *value;
}

template <typename T>
void take_optional(const Json& row, const char* key, std::optional<T>& value) {
  if (row.contains(key)) value = row[key].get<T>();
}

void put(Json& row, const StateResult& state) { row.update(state_json(state)); }

StateResult state_from(const Json& value) {
  StateResult state{value.at("piece").get<std::string>(), value.at("tensors").get<std::uint64_t>(),
                    value.at("changed").get<std::uint64_t>(), value.at("steps").get<std::uint64_t>()};
  take_optional(value, "first_step", state.first_step);
  take_optional(value, "largest_difference", state.largest);
  take_optional(value, "first_evaluation", state.first_evaluation);
  state.refused = value.value("refused", "");
  return state;
}

void put(Json& row, const CostResult& cost) {
  put_optional(row, "mode", cost.what.mode);
  row["route"] = cost.what.route;
  row["ranks"] = cost.what.ranks;
  row["model"] = cost.what.model;
  put_optional(row, "shard_optimizer", cost.what.shard_optimizer);
  row["turn"] = cost.turn;
  row["bytes"] = cost.bytes;
  row["block_seconds"] = cost.block;
  row["persist_seconds"] = cost.persist;
  put_optional(row, "load_seconds", cost.load);
  put_optional(row, "step_seconds", cost.step);
  put_optional(row, "every", cost.every);
  put_optional(row, "processor_seconds", cost.processor);
  put_optional(row, "library", cost.library);
}

CostResult cost_from(const Json& value) {
  CostResult cost;
  take_optional(value, "mode", cost.what.mode);
  cost.what.route = value.at("route").get<SaveRoute>();
  cost.what.ranks = value.at("ranks").get<int>();
  cost.what.model = value.at("model").get<std::size_t>();
  take_optional(value, "shard_optimizer", cost.what.shard_optimizer);
  cost.turn = value.at("turn").get<std::uint64_t>();
  cost.bytes = value.at("bytes").get<std::uint64_t>();
  cost.block = value.at("block_seconds").get<double>();
  cost.persist = value.at("persist_seconds").get<double>();
  take_optional(value, "load_seconds", cost.load);
  take_optional(value, "step_seconds", cost.step);
  take_optional(value, "every", cost.every);
  take_optional(value, "processor_seconds", cost.processor);
  take_optional(value, "library", cost.library);
  return cost;
}

void put(Json& row, const PolicyResult& policy) {
  row["mode"] = policy.mode;
  row["interval"] = policy.interval;
  row["number"] = policy.number;
  if (const auto* costs = std::get_if<PolicyCosts>(&policy.found)) {
    row["step_seconds"] = costs->step;
    row["block_seconds"] = costs->block;
    row["persist_seconds"] = costs->persist;
    row["restart_seconds"] = costs->restart;
    return;
  }
  const Life& life = std::get<Life>(policy.found);
  row["seconds"] = life.seconds;
  row["steps"] = life.steps;
  if (life.step > 0) row["step_seconds"] = life.step;
  if (life.block > 0) row["block_seconds"] = life.block;
  if (life.persist > 0) row["persist_seconds"] = life.persist;
}

SizeResult size_from(const Json& value) {
  return {value.at("bytes").get<std::uint64_t>(), value.at("payload_bytes").get<std::uint64_t>(),
          value.at("tensor_bytes").get<std::uint64_t>(), value.at("parameters").get<std::uint64_t>()};
}

DeterminismResult saves_from(const Json& value) {
  DeterminismResult saves{value.at("equal").get<bool>(), value.at("first_bytes").get<std::uint64_t>(),
                          value.at("second_bytes").get<std::uint64_t>(),
                          value.at("differing_bytes").get<std::uint64_t>()};
  if (value.contains("first_difference")) saves.first_difference = fault_from(value["first_difference"]);
  return saves;
}

DamageResult damage_from(const Json& value) {
  DamageResult damage;
  if (value.contains("canary")) {
    damage.canary = value["canary"].get<DamageCanary>();
  } else {
    damage.stratum = value.at("stratum").get<BitStratum>();
    damage.draw = value.at("draw").get<std::uint64_t>();
    damage.fault = fault_from(value.at("fault"));
  }
  damage.outcome = value.at("outcome").get<DamageOutcome>();
  damage.message = value.at("message").get<std::string>();
  damage.missing = value.value("missing", std::uint64_t{0});
  return damage;
}

PolicyResult policy_from(const Json& value) {
  PolicyResult policy{value.at("mode").get<record::SaveMode>(), value.at("interval").get<std::int64_t>(),
                      value.at("number").get<std::uint64_t>()};
  if (value.contains("restart_seconds")) {
    policy.found =
        PolicyCosts{value.at("step_seconds").get<double>(), value.at("block_seconds").get<double>(),
                    value.at("persist_seconds").get<double>(), value["restart_seconds"].get<double>()};
  } else {
    policy.found = Life{value.at("seconds").get<double>(), value.at("steps").get<std::int64_t>(),
                        value.value("step_seconds", 0.0), value.value("block_seconds", 0.0),
                        value.value("persist_seconds", 0.0)};
  }
  return policy;
}

std::string id_of(StudyPart part, Format format, FileWriter writer) {
  return fmt::format("{}/{}/{}", name_of(part), name_of(format), name_of(writer));
}

}  // namespace

std::string StudyRow::id() const {
  const FileKind kind{format, writer, "", ""};
  if (const auto* policy = std::get_if<PolicyResult>(&result)) {
    const auto id = std::holds_alternative<PolicyCosts>(policy->found) ? costs_id : life_id;
    return id(kind, policy->mode, policy->interval, policy->number);
  }
  if (const auto* cost = std::get_if<CostResult>(&result)) return cost_id(kind, cost->what, cost->turn);
  if (const auto* replay = std::get_if<ReplayResult>(&result)) return replay_id(kind, replay->draw);
  if (const auto* kill = std::get_if<KillResult>(&result)) return kill_id(kind, kill->call, kill->half);
  if (const auto* state = std::get_if<StateResult>(&result)) return state_id(state->piece);
  const auto* damage = std::get_if<DamageResult>(&result);
  if (damage == nullptr) return row_id(part(), kind);
  return damage->canary ? canary_id(kind, *damage->canary) : flip_id(kind, damage->stratum, damage->draw);
}

Json to_json(const StudyRow& row) {
  Json value = {{"part", row.part()}, {"format", row.format}, {"writer", row.writer}};
  std::visit([&](const auto& result) { put(value, result); }, row.result);
  return value;
}

StudyRow study_row_from_json(const Json& value) {
  StudyRow row{value.at("format").get<Format>(), value.at("writer").get<FileWriter>()};
  switch (value.at("part").get<StudyPart>()) {
    case StudyPart::size:
      row.result = size_from(value);
      break;
    case StudyPart::determinism:
      row.result = saves_from(value);
      break;
    case StudyPart::damage:
      row.result = damage_from(value);
      break;
    case StudyPart::replay:
      row.result = replay_from(value);
      break;
    case StudyPart::kill:
      row.result = kill_from(value);
      break;
    case StudyPart::state:
      row.result = state_from(value);
      break;
    case StudyPart::cost:
      row.result = cost_from(value);
      break;
    case StudyPart::policy:
      row.result = policy_from(value);
      break;
  }
  return row;
}

ValueChange change_from_json(const Json& value) {
  const std::string text = value.at("mask").get<std::string>();
  ValueChange change{value.at("tensor").get<std::string>(), value.at("element").get<std::uint64_t>()};
  const bool prefixed = text.starts_with("0x");
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + (prefixed ? 2 : 0), end, change.mask, 16);
  if (!prefixed || read.ec != std::errc() || read.ptr != end || change.mask == 0)
    fail(ErrorCode::bad_file, "'{}' is no mask of bits", text);
  return change;
}

Json state_json(const StateResult& state) {
  Json value = {
      {"piece", state.piece}, {"tensors", state.tensors}, {"changed", state.changed}, {"steps", state.steps}};
  put_optional(value, "first_step", state.first_step);
  put_optional(value, "largest_difference", state.largest);
  put_optional(value, "first_evaluation", state.first_evaluation);
  if (!state.refused.empty()) value["refused"] = state.refused;
  return value;
}

std::string row_id(StudyPart part, const FileKind& kind) { return id_of(part, kind.format, kind.writer); }

std::string canary_id(const FileKind& kind, DamageCanary canary) {
  return fmt::format("{}/{}", row_id(StudyPart::damage, kind), name_of(canary));
}

std::string replay_id(const FileKind& kind, std::uint64_t draw) {
  return fmt::format("{}/{}", row_id(StudyPart::replay, kind), draw);
}

std::string kill_id(const FileKind& kind, std::uint64_t call, bool half) {
  return fmt::format("{}/{}{}", row_id(StudyPart::kill, kind), call, half ? "/half" : "");
}

std::string state_id(const std::string& piece) {
  return fmt::format("{}/{}", row_id(StudyPart::state, state_kind), piece);
}

std::string cost_id(const FileKind& kind, const CostCase& what, std::uint64_t turn) {
  const char* replicas = what.shard_optimizer ? (*what.shard_optimizer ? "shards/" : "replicas/") : "";
  return fmt::format("{}/{}/{}/{}/{}/{}{}", row_id(StudyPart::cost, kind),
                     what.mode ? name_of(*what.mode) : "none", name_of(what.route), what.ranks, what.model,
                     replicas, turn);
}

std::string costs_id(const FileKind& kind, record::SaveMode mode, std::int64_t interval,
                     std::uint64_t number) {
  return fmt::format("{}/{}/costs/{}/{}", row_id(StudyPart::policy, kind), name_of(mode), interval, number);
}

std::string life_id(const FileKind& kind, record::SaveMode mode, std::int64_t interval,
                    std::uint64_t number) {
  return fmt::format("{}/{}/{}/{}", row_id(StudyPart::policy, kind), name_of(mode), interval, number);
}

std::string flip_id(const FileKind& kind, BitStratum stratum, std::uint64_t draw) {
  return fmt::format("{}/{}/{}", row_id(StudyPart::damage, kind), name_of(stratum), draw);
}

}  // namespace bitrift::study
