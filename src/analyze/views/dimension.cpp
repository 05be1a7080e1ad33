#include "analyze/views/dimension.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "core/error.h"
#include "record/run.h"

namespace bitrift::analyze {
namespace {

std::string scope_text(const record::Scope& scope) {
  if (scope.all()) return "all";
  if (scope.stage >= 0) return fmt::format("stage {}", scope.stage);
  if (scope.count > 0) return fmt::format("{} drawn", scope.count);
  return fmt::format("replica {}", fmt::join(scope.replicas, "+"));
}

// Guards with other limits, or another action, are other guards.
std::string guard_text(const record::GuardSpec& guards) {
  std::vector<std::string> on;
  for (const auto& [guard, limit] : guards.chosen())
    on.push_back(limit > 0 ? fmt::format("{}={}", name_of(guard), limit) : name_of(guard));
  if (on.empty()) return "none";
  std::string names = fmt::format("{}", fmt::join(on, "+"));
  if (guards.on_alarm == record::OnAlarm::record) return names;
  if (guards.rollback_every == 1) return fmt::format("{}:{}", names, name_of(guards.on_alarm));
  return fmt::format("{}:{}/{}", names, name_of(guards.on_alarm), guards.rollback_every);
}

std::string property_of(Dimension dimension, const design::CampaignSpec& spec, const design::Arm& arm,
                        const record::Stratum& stratum, bool by_base) {
  const record::FaultModel* const model = spec.strata->model(stratum.name);
  switch (dimension) {
    case Dimension::strategy:
      return by_base && !arm.stem.empty() ? arm.stem : arm.name;
    case Dimension::base:
      return spec.base_of(arm).name;
    case Dimension::role:
      return stratum.role;
    case Dimension::field:
      return stratum.field;
    case Dimension::stratum:
      return stratum.name;
    case Dimension::scope:
      return scope_text(arm.scope.all() && model != nullptr ? model->scope : arm.scope);
    case Dimension::plane:
      return spec.strata->plane(stratum.name);
    case Dimension::precision:
      return arm.precision.empty() ? "base" : arm.precision;
    case Dimension::guard:
      return guard_text(spec.guards_of(arm));
    case Dimension::state:
      return name_of(state_of(stratum.role));
    case Dimension::layer:
    case Dimension::tensor:
    case Dimension::bit:
      break;
  }
  fail(ErrorCode::internal, "{} is not a property of an arm or a stratum", name_of(dimension));
}

}  // namespace

std::optional<Dimension> find_dimension(std::string_view word) noexcept {
  return word == "arm" ? Dimension::strategy : find_named<Dimension>(word);
}

State state_of(std::string_view role) noexcept {
  const std::size_t plus = role.find('+');
  if (plus != std::string_view::npos) {
    const State first = state_of(role.substr(0, plus));
    return first == state_of(role.substr(plus + 1)) ? first : State::other;
  }
  for (const char* one : {"weight", "bias", "norm", "running_stat"}) {
    if (role == one) return State::model;
  }
  for (const char* one : {"momentum", "exp_avg", "exp_avg_sq", "step"}) {
    if (role == one) return State::optimizer;
  }
  return State::other;
}

std::vector<std::string> dimension_names(const std::vector<Dimension>& by) {
  std::vector<std::string> names;
  names.reserve(by.size());
  for (const Dimension dimension : by) names.emplace_back(name_of(dimension));
  return names;
}

std::string list_dimensions() {
  std::string list;
  for (std::size_t i = 0; i < names_of(Dimension{}).words.size(); ++i) {
    list += (list.empty() ? "" : ", ") + std::string(key_name(static_cast<Dimension>(i)));
  }
  return list;
}

std::vector<std::string> usual_dimensions(const design::CampaignSpec& spec) {
  return {"strategy", spec.strata->usual_dimension()};
}

Dimension dimension_named(const std::string& word, const design::CampaignSpec& spec, const char* option) {
  const auto dimension = find_dimension(word);
  if (!dimension) fail(ErrorCode::bad_input, "{} {}: give one of {}", option, word, list_dimensions());
  if (!cuts_strata(*dimension)) return *dimension;
  if (const std::string why = spec.strata->no_rates_by(word); !why.empty())
    fail(ErrorCode::unsupported, "{} {}: {}", option, word, why);
  return *dimension;
}

std::vector<Dimension> dimensions(const std::vector<std::string>& by, const design::CampaignSpec& spec) {
  std::vector<Dimension> result;
  const auto add = [&](Dimension one) {
    if (std::find(result.begin(), result.end(), one) == result.end()) result.push_back(one);
  };
  add(Dimension::strategy);
  // Bases are a factor: no rate is averaged over them.
  if (spec.bases.size() > 1) add(Dimension::base);
  for (const std::string& name : by) add(dimension_named(name, spec, "--by"));
  // Fault models are not parts of one population: each has its own line.
  if (!spec.strata->pooled() && spec.strata->strata().size() > 1) add(Dimension::stratum);
  return result;
}

std::vector<Dimension> whole_dimensions(const std::vector<std::string>& by, const design::CampaignSpec& spec,
                                        const std::string& table) {
  std::vector<Dimension> result = dimensions(by, spec);
  for (const Dimension dimension : result) {
    if (!cuts_strata(dimension)) continue;
    fail(ErrorCode::unsupported,
         "--by {}: {} counts rows, which are not weighted by {}; leave one of them out", name_of(dimension),
         table, name_of(dimension));
  }
  return result;
}

Keys::Keys(const design::CampaignSpec& spec, const std::vector<Dimension>& by)
    : spec_(spec), by_(by), strata_(spec.strata->strata()) {}

std::map<std::string, std::string> Keys::of(const std::string& arm_name,
                                            const std::string& stratum_name) const {
  const design::Arm& arm = spec_.arms[spec_.arm_index(arm_name)];
  const auto stratum = std::find_if(strata_.begin(), strata_.end(),
                                    [&](const record::Stratum& one) { return one.name == stratum_name; });
  if (stratum == strata_.end()) {
    fail(ErrorCode::conflict, "the journal has rows of stratum '{}', which the campaign does not have",
         stratum_name);
  }
  const bool by_base = std::find(by_.begin(), by_.end(), Dimension::base) != by_.end();
  std::map<std::string, std::string> key;
  for (const Dimension dimension : by_) {
    if (cuts_strata(dimension)) continue;
    key[key_name(dimension)] = property_of(dimension, spec_, arm, *stratum, by_base);
  }
  return key;
}

}  // namespace bitrift::analyze
