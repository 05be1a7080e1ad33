#include "study/row/study_row.h"

#include <charconv>
#include <system_error>

#include "core/error.h"

namespace bitrift::study {
namespace {

using record::Json;
using record::Key;
using record::Presence;

constexpr std::tuple kill_keys = {Key{"call", &KillResult::call},       Key{"half", &KillResult::half},
                                  Key{"calls", &KillResult::calls},     Key{"outcome", &KillResult::outcome},
                                  Key{"message", &KillResult::message}, Key{"left", &KillResult::left}};

constexpr std::tuple case_keys = {Key{"mode", &CostCase::mode}, Key{"route", &CostCase::route},
                                  Key{"ranks", &CostCase::ranks}, Key{"model", &CostCase::model},
                                  Key{"shard_optimizer", &CostCase::shard_optimizer}};

constexpr std::tuple cost_keys = {
    Key{"turn", &CostResult::turn},           Key{"bytes", &CostResult::bytes},
    Key{"block_seconds", &CostResult::block}, Key{"persist_seconds", &CostResult::persist},
    Key{"load_seconds", &CostResult::load},   Key{"step_seconds", &CostResult::step},
    Key{"every", &CostResult::every},         Key{"processor_seconds", &CostResult::processor},
    Key{"library", &CostResult::library}};

constexpr std::tuple policy_keys = {Key{"mode", &PolicyResult::mode},
                                    Key{"interval", &PolicyResult::interval},
                                    Key{"number", &PolicyResult::number}};

constexpr std::tuple policy_cost_keys = {
    Key{"step_seconds", &PolicyCosts::step}, Key{"block_seconds", &PolicyCosts::block},
    Key{"persist_seconds", &PolicyCosts::persist}, Key{"restart_seconds", &PolicyCosts::restart}};

constexpr std::tuple life_keys = {Key{"seconds", &Life::seconds}, Key{"steps", &Life::steps},
                                  Key{"step_seconds", &Life::step, Presence::unless_default},
                                  Key{"block_seconds", &Life::block, Presence::unless_default},
                                  Key{"persist_seconds", &Life::persist, Presence::unless_default}};

template <record::HasKeys Result>
void put(Json& row, const Result& result) {
  put_keys(row, result, keys_of(std::type_identity<Result>{}));
}

template <record::HasKeys Result>
void take(const Json& row, Result& result) {
  row.get_to(result);
}

void put(Json& row, const DamageResult& damage) {
  if (damage.canary) {
    row["canary"] = *damage.canary;
  } else {
    row["stratum"] = damage.stratum;
    row["draw"] = damage.draw;
    row["fault"] = damage.fault.value();
  }
  row["outcome"] = damage.outcome;
  row["message"] = damage.message;
  if (damage.outcome == DamageOutcome::silently_wrong) row["missing"] = damage.missing;
}

void take(const Json& row, DamageResult& damage) {
  if (row.contains("canary")) {
    damage.canary = row["canary"].get<DamageCanary>();
  } else {
    row.at("stratum").get_to(damage.stratum);
    row.at("draw").get_to(damage.draw);
    damage.fault = row.at("fault").get<BitFault>();
  }
  row.at("outcome").get_to(damage.outcome);
  row.at("message").get_to(damage.message);
  damage.missing = row.value("missing", std::uint64_t{0});
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

void take(const Json& row, ReplayResult& replay) {
  row.at("draw").get_to(replay.draw);
  if (!row.contains("change")) return;
  replay.change = change_from_json(row["change"]);
  replay.reason = row.at("reason").get<record::Reason>();
}

void put(Json& row, const KillResult& kill) {
  put_keys(row, kill, kill_keys);
  if (kill.call == 0) row["points"] = kill.points;
}

void take(const Json& row, KillResult& kill) {
  take_keys(row, kill, kill_keys);
  kill.points = row.value("points", std::uint64_t{0});
}

void put(Json& row, const CostResult& cost) {
  put_keys(row, cost.what, case_keys);
  put_keys(row, cost, cost_keys);
}

void take(const Json& row, CostResult& cost) {
  take_keys(row, cost.what, case_keys);
  take_keys(row, cost, cost_keys);
}

void put(Json& row, const PolicyResult& policy) {
  put_keys(row, policy, policy_keys);
  if (const auto* costs = std::get_if<PolicyCosts>(&policy.found)) {
    put_keys(row, *costs, policy_cost_keys);
  } else {
    put_keys(row, std::get<Life>(policy.found), life_keys);
  }
}

void take(const Json& row, PolicyResult& policy) {
  take_keys(row, policy, policy_keys);
  if (row.contains("restart_seconds")) {
    take_keys(row, policy.found.emplace<PolicyCosts>(), policy_cost_keys);
  } else {
    take_keys(row, policy.found.emplace<Life>(), life_keys);
  }
}

// The result of one part of a study, which is an alternative of StudyRow::result.
template <std::size_t part = 0>
void take_result(const Json& row, StudyPart asked, StudyRow& into) {
  if constexpr (part < std::variant_size_v<decltype(into.result)>) {
    if (asked != static_cast<StudyPart>(part)) return take_result<part + 1>(row, asked, into);
    take(row, into.result.emplace<part>());
  }
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
  take_result(value, value.at("part").get<StudyPart>(), row);
  return row;
}

ValueChange change_from_json(const Json& value) {
  const std::string text = value.at("mask").get<std::string>();
  ValueChange change{value.at("tensor").get<std::string>(), value.at("element").get<std::uint64_t>()};
  const bool prefixed = text.starts_with("0x");
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + (prefixed ? 2 : 0), end, change.mask, 16);
  if (!prefixed || read.ec != std::errc() || read.ptr != end || change.mask == 0)
    fail(ErrorCode::bad_file, "'{}' is not a mask of bits", text);
  return change;
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
