#include "spec/optimizer_parts.h"

#include <type_traits>

#include "core/error.h"

namespace bitrift::record {
namespace {

constexpr std::tuple schedule_keys = {Key{"every", &ScheduleSpec::every},
                                      Key{"gamma", &ScheduleSpec::gamma},
                                      Key{"warmup_steps", &ScheduleSpec::warmup_steps},
                                      Key{"steps", &ScheduleSpec::steps},
                                      Key{"min_learning_rate", &ScheduleSpec::min_learning_rate},
                                      Key{"factor", &ScheduleSpec::factor},
                                      Key{"patience", &ScheduleSpec::patience},
                                      Key{"cooldown", &ScheduleSpec::cooldown},
                                      Key{"threshold", &ScheduleSpec::threshold},
                                      Key{"monitor", &ScheduleSpec::monitor}};

constexpr std::tuple guard_keys = {Key{"nonfinite", &GuardSpec::nonfinite},
                                   Key{"loss_spike", &GuardSpec::loss_spike},
                                   Key{"gradient_norm", &GuardSpec::gradient_norm},
                                   Key{"gradient_jump", &GuardSpec::gradient_jump},
                                   Key{"activation_range", &GuardSpec::activation_range},
                                   Key{"moment_bound", &GuardSpec::moment_bound},
                                   Key{"update_bound", &GuardSpec::update_bound},
                                   Key{"update_jump", &GuardSpec::update_jump},
                                   Key{"fingerprints", &GuardSpec::fingerprints},
                                   Key{"replicas", &GuardSpec::replicas},
                                   Key{"recompute", &GuardSpec::recompute},
                                   Key{"checksums", &GuardSpec::checksums},
                                   Key{"on_alarm", &GuardSpec::on_alarm},
                                   Key{"rollback_every", &GuardSpec::rollback_every}};

// Calls use(guard, member) for the setting of each guard, in the order of the keys: a factor or limit is a
// double, and a guard without one is a bool.
template <typename Use>
void for_each_guard(const Use& use) {
  const auto one = [&use](const auto& key) {
    if (const auto guard = find_named<Guard>(key.name)) use(*guard, key.member);
  };
  std::apply([&one](const auto&... keys) { (one(keys), ...); }, guard_keys);
}

}  // namespace

OptimizerSpec read_optimizer(const Part& part) {
  OptimizerSpec optimizer;
  part.take("name", optimizer.name);
  optimizer.learning_rate = part.value().at("learning_rate");
  if (optimizer.is_adam()) {
    part.refuse({"momentum", "nesterov"}, name_of(optimizer.name));
  } else {
    part.refuse({"beta1", "beta2", "epsilon"}, name_of(optimizer.name));
  }
  if (optimizer.name == OptimizerName::adamw) optimizer.weight_decay = 0.01;
  part.take("momentum", optimizer.momentum);
  part.take("nesterov", optimizer.nesterov);
  part.take("weight_decay", optimizer.weight_decay);
  part.take("beta1", optimizer.beta1);
  part.take("beta2", optimizer.beta2);
  part.take("epsilon", optimizer.epsilon);
  part.take("clip_norm", optimizer.clip_norm);
  if (optimizer.nesterov && optimizer.momentum == 0) {
    fail(ErrorCode::bad_input, "{}: Nesterov's method needs a momentum above 0", part.where("nesterov"));
  }
  return optimizer;
}

Json to_json(const OptimizerSpec& optimizer) {
  Json value = {{"name", optimizer.name}, {"learning_rate", optimizer.learning_rate}};
  if (optimizer.is_adam()) {
    value["beta1"] = optimizer.beta1;
    value["beta2"] = optimizer.beta2;
    value["epsilon"] = optimizer.epsilon;
    put(value, "weight_decay", optimizer.weight_decay, optimizer.name == OptimizerName::adamw ? 0.01 : 0.0);
  } else {
    value["momentum"] = optimizer.momentum;
    value["weight_decay"] = optimizer.weight_decay;
    put(value, "nesterov", optimizer.nesterov, false);
  }
  put(value, "clip_norm", optimizer.clip_norm, 0.0);
  return value;
}

ScheduleSpec read_schedule(const Part& part) {
  ScheduleSpec schedule;
  part.take("name", schedule.name);
  const std::string owner = std::string("schedule ") + name_of(schedule.name);
  if (schedule.name == ScheduleName::step) {
    part.require({"every"}, "step needs the number of epochs between two steps");
  } else {
    part.refuse({"every", "gamma"}, owner);
  }
  if (schedule.name != ScheduleName::cosine) part.refuse({"warmup_steps", "steps"}, owner);
  if (schedule.name != ScheduleName::cosine && schedule.name != ScheduleName::plateau)
    part.refuse({"min_learning_rate"}, owner);
  if (schedule.name != ScheduleName::plateau)
    part.refuse({"factor", "patience", "cooldown", "threshold", "monitor"}, owner);
  take_all(part, schedule_keys, schedule);
  return schedule;
}

Json to_json(const ScheduleSpec& schedule) {
  Json value = {{"name", schedule.name}};
  put_all(value, schedule_keys, schedule);
  return value;
}

std::vector<std::pair<Guard, double>> GuardSpec::chosen() const {
  std::vector<std::pair<Guard, double>> list;
  for_each_guard([&](Guard guard, auto member) {
    const auto value = this->*member;
    if (value != decltype(value){})
      list.emplace_back(guard, has_limit(guard) ? static_cast<double>(value) : 0);
  });
  return list;
}

bool has_limit(Guard guard) noexcept {
  bool found = false;
  for_each_guard([&](Guard one, auto member) {
    if (one == guard) found = std::is_same_v<decltype(member), double GuardSpec::*>;
  });
  return found;
}

std::string needs_adam(Guard guard, const OptimizerSpec& optimizer) {
  if (optimizer.is_adam()) return "";
  if (guard == Guard::moment_bound)
    return fmt::format("the bound holds for Adam's first moment; {} has none", name_of(optimizer.name));
  if (guard == Guard::update_bound)
    return fmt::format("the bound holds for Adam's updates; those of {} have none", name_of(optimizer.name));
  return "";
}

GuardSpec read_guards(const Part& part, const OptimizerSpec& optimizer) {
  GuardSpec guards;
  take_all(part, guard_keys, guards);
  for (const auto& [guard, limit] : guards.chosen()) {
    if (const std::string why = needs_adam(guard, optimizer); !why.empty())
      fail(ErrorCode::bad_input, "{}: {}", part.where(name_of(guard)), why);
  }
  if (guards.on_alarm == OnAlarm::clip && guards.activation_range == 0) {
    fail(ErrorCode::bad_input,
         "{}: clips what activation_range finds; add that guard, or choose another action",
         part.where("on_alarm"));
  }
  if (guards.on_alarm == OnAlarm::reload && !guards.fingerprints) {
    fail(ErrorCode::bad_input,
         "{}: reloads what fingerprints finds; add that guard, or choose another action",
         part.where("on_alarm"));
  }
  if (guards.rollback_every != 1 && guards.on_alarm != OnAlarm::rollback) {
    fail(ErrorCode::bad_input, "{}: is for \"on_alarm\": \"rollback\"; add that, or remove the key",
         part.where("rollback_every"));
  }
  return guards;
}

Json to_json(const GuardSpec& guards) {
  Json value = Json::object();
  put_all(value, guard_keys, guards);
  return value;
}

}  // namespace bitrift::record
