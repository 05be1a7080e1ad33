// How parameters are updated: optimizer, schedule, guards.
#include "core/error.h"
#include "record/training_parts.h"

namespace bitrift::record {

OptimizerSpec read_optimizer(const Part& part) {
  OptimizerSpec optimizer;
  optimizer.name = part.value().at("name");
  optimizer.learning_rate = part.value().at("learning_rate");
  if (optimizer.is_adam()) {
    part.refuse({"momentum", "nesterov"}, optimizer.name);
  } else {
    part.refuse({"beta1", "beta2", "epsilon"}, optimizer.name);
  }
  if (optimizer.name == "adamw") optimizer.weight_decay = 0.01;
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
    put(value, "weight_decay", optimizer.weight_decay, optimizer.name == "adamw" ? 0.01 : 0.0);
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
  schedule.name = part.value().at("name");
  const std::string owner = "schedule " + schedule.name;
  if (schedule.name == "step") {
    part.require({"every"}, "step needs the number of epochs between two steps");
  } else {
    part.refuse({"every", "gamma"}, owner);
  }
  if (schedule.name != "cosine") part.refuse({"warmup_steps", "steps"}, owner);
  if (schedule.name != "cosine" && schedule.name != "plateau") part.refuse({"min_learning_rate"}, owner);
  if (schedule.name != "plateau")
    part.refuse({"factor", "patience", "cooldown", "threshold", "monitor"}, owner);
  part.take("every", schedule.every);
  part.take("gamma", schedule.gamma);
  part.take("warmup_steps", schedule.warmup_steps);
  part.take("steps", schedule.steps);
  part.take("min_learning_rate", schedule.min_learning_rate);
  part.take("factor", schedule.factor);
  part.take("patience", schedule.patience);
  part.take("cooldown", schedule.cooldown);
  part.take("threshold", schedule.threshold);
  part.take("monitor", schedule.monitor);
  return schedule;
}

Json to_json(const ScheduleSpec& schedule) {
  const ScheduleSpec usual;
  Json value = {{"name", schedule.name}};
  put(value, "every", schedule.every, usual.every);
  put(value, "gamma", schedule.gamma, usual.gamma);
  put(value, "warmup_steps", schedule.warmup_steps, usual.warmup_steps);
  put(value, "steps", schedule.steps, usual.steps);
  put(value, "min_learning_rate", schedule.min_learning_rate, usual.min_learning_rate);
  put(value, "factor", schedule.factor, usual.factor);
  put(value, "patience", schedule.patience, usual.patience);
  put(value, "cooldown", schedule.cooldown, usual.cooldown);
  put(value, "threshold", schedule.threshold, usual.threshold);
  put(value, "monitor", schedule.monitor, usual.monitor);
  return value;
}

GuardSpec read_guards(const Part& part, const OptimizerSpec& optimizer) {
  GuardSpec guards;
  part.take("nonfinite", guards.nonfinite);
  part.take("loss_spike", guards.loss_spike);
  part.take("gradient_norm", guards.gradient_norm);
  part.take("moment_bound", guards.moment_bound);
  part.take("checksums", guards.checksums);
  part.take("on_alarm", guards.on_alarm);
  if (guards.moment_bound && !optimizer.is_adam()) {
    fail(ErrorCode::bad_input, "{}: the bound holds for Adam's first moment; {} has none",
         part.where("moment_bound"), optimizer.name);
  }
  return guards;
}

Json to_json(const GuardSpec& guards) {
  const GuardSpec usual;
  Json value = Json::object();
  put(value, "nonfinite", guards.nonfinite, usual.nonfinite);
  put(value, "loss_spike", guards.loss_spike, usual.loss_spike);
  put(value, "gradient_norm", guards.gradient_norm, usual.gradient_norm);
  put(value, "moment_bound", guards.moment_bound, usual.moment_bound);
  put(value, "checksums", guards.checksums, usual.checksums);
  put(value, "on_alarm", guards.on_alarm, usual.on_alarm);
  return value;
}

}  // namespace bitrift::record
