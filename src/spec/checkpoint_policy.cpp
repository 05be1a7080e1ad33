#include "spec/checkpoint_policy.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"

namespace bitrift::record {
namespace {

constexpr std::int64_t most_steps = 1'000'000'000;

}  // namespace

void set_every(CheckpointPolicy& policy, const std::string& text, const std::string& where) {
  policy.automatic = text == "auto";
  policy.every = 0;
  if (policy.automatic) return;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, policy.every);
  if (error != std::errc() || rest != end || policy.every < 0 || policy.every > most_steps) {
    fail(ErrorCode::bad_input, "{}: expected a number of steps from 0 to {}, or auto; found '{}'", where,
         most_steps, text);
  }
}

CheckpointPolicy read_checkpoint_policy(const Part& part) {
  CheckpointPolicy policy;
  if (part.has("every")) {
    const Json& every = part.value()["every"];
    set_every(policy, every.is_string() ? every.get<std::string>() : every.dump(), part.where("every"));
  }
  part.take("mode", policy.mode);
  part.take("writer", policy.writer);
  if (part.has("keep")) policy.keep = part.value()["keep"].get<int>();
  if (part.has("mean_time_between_failures"))
    policy.mean_time_between_failures = part.value()["mean_time_between_failures"].get<double>();
  return policy;
}

void check_checkpoint_policy(const CheckpointPolicy& policy) {
  if (policy.automatic && !policy.mean_time_between_failures) {
    fail(ErrorCode::bad_input,
         "checkpoints every 'auto' steps need the mean time between failures; give --mtbf SECONDS, or "
         "checkpoint.mean_time_between_failures in the spec");
  }
  if (!policy.automatic && policy.mean_time_between_failures) {
    fail(ErrorCode::bad_input,
         "the mean time between failures (--mtbf) is used only by --checkpoint-every auto; choose that, or "
         "leave it out");
  }
  if (policy.mode == SaveMode::async && !policy.writes()) {
    fail(ErrorCode::bad_input,
         "--checkpoint-mode async needs --checkpoint-every; the last save is always sync");
  }
  if (policy.mode == SaveMode::async && policy.writer == SaveWriter::shared) {
    fail(ErrorCode::bad_input,
         "--checkpoint-mode async cannot be combined with --checkpoint-writer shared; choose sync, gather or "
         "direct");
  }
}

double young_interval(double cost, double mean_time_between_failures) {
  return std::sqrt(2 * cost * mean_time_between_failures);
}

double daly_interval(double cost, double mean_time_between_failures) {
  const double ratio = cost / (2 * mean_time_between_failures);
  if (ratio >= 1) return mean_time_between_failures;
  return young_interval(cost, mean_time_between_failures) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost;
}

double daly_slowdown(double interval, double cost, double restart, double mean_time_between_failures) {
  const double mean = mean_time_between_failures;
  return std::exp(restart / mean) * std::expm1((interval + cost) / mean) * mean / interval;
}

double asynchronous_interval(double stall, double persist, double mean_time_between_failures) {
  return std::max(persist, daly_interval(stall, mean_time_between_failures));
}

double asynchronous_slowdown(double interval, double stall, double persist, double restart,
                             double mean_time_between_failures) {
  return std::exp(persist / mean_time_between_failures) *
         daly_slowdown(interval, stall, restart, mean_time_between_failures);
}

std::int64_t steps_of_interval(double interval, double step_seconds) {
  if (!(step_seconds > 0)) return most_steps;
  return static_cast<std::int64_t>(
      std::clamp(std::round(interval / step_seconds), 1.0, static_cast<double>(most_steps)));
}

}  // namespace bitrift::record
