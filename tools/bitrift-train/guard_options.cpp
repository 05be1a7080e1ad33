#include "guard_options.h"

#include <cmath>
#include <cstdlib>

#include "core/error.h"
#include "core/log.h"
#include "options/one_of.h"

namespace bitrift::cli {
namespace {

constexpr std::size_t most_lines = 10;
constexpr const char* guards_in_words =
    "nonfinite, checksums, moment_bound, update_bound, fingerprints, replicas, recompute, "
    "loss_spike=FACTOR, gradient_jump=FACTOR, activation_range=FACTOR, update_jump=FACTOR or "
    "gradient_norm=LIMIT";

double value_of(const std::string& text, record::Guard guard, double above) {
  const std::size_t cut = text.find('=');
  const std::string number = cut == std::string::npos ? "" : text.substr(cut + 1);
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !std::isfinite(value) || value <= above) {
    fail(ErrorCode::bad_input, "--guard {}: expected {}=NUMBER with a number above {}", text, name_of(guard),
         above);
  }
  return value;
}

void choose_guard(const std::string& text, record::TrainingSpec& spec) {
  record::GuardSpec& guards = spec.guards;
  if (text == "none") {
    guards = {};
    return;
  }
  const auto guard = find_named<record::Guard>(text.substr(0, text.find('=')));
  if (!guard || (!record::has_limit(*guard) && text.find('=') != std::string::npos))
    fail(ErrorCode::bad_input, "--guard {}: expected none, {}", text, guards_in_words);
  if (const std::string why = record::needs_adam(*guard, spec.optimizer); !why.empty())
    fail(ErrorCode::bad_input, "--guard {}: {}", text, why);
  switch (*guard) {
    case record::Guard::nonfinite:
      guards.nonfinite = true;
      return;
    case record::Guard::checksums:
      guards.checksums = true;
      return;
    case record::Guard::loss_spike:
      guards.loss_spike = value_of(text, *guard, 1);
      return;
    case record::Guard::gradient_norm:
      guards.gradient_norm = value_of(text, *guard, 0);
      return;
    case record::Guard::gradient_jump:
      guards.gradient_jump = value_of(text, *guard, 1);
      return;
    case record::Guard::moment_bound:
      guards.moment_bound = true;
      return;
    case record::Guard::update_bound:
      guards.update_bound = true;
      return;
    case record::Guard::update_jump:
      guards.update_jump = value_of(text, *guard, 1);
      return;
    case record::Guard::activation_range:
      guards.activation_range = value_of(text, *guard, 1);
      return;
    case record::Guard::replicas:
      guards.replicas = true;
      return;
    case record::Guard::recompute:
      guards.recompute = true;
      return;
    case record::Guard::fingerprints:
      guards.fingerprints = true;
  }
}

}  // namespace

void add_guard_options(CLI::App* command, GuardArguments& arguments) {
  command->add_option(
      "--guard", arguments.guards,
      fmt::format("Enable a guard: {}; none: disable those in the spec; repeatable", guards_in_words));
  command->add_option("--on-alarm", arguments.on_alarm, "Action on an alarm (default: record)")
      ->check(one_of<record::OnAlarm>());
  command
      ->add_option("--rollback-every", arguments.rollback_every,
                   "With --on-alarm rollback: steps from one kept state to the next (default: 1)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000000}));
}

void choose_guards(const GuardArguments& arguments, record::TrainingSpec& spec) {
  for (const std::string& text : arguments.guards) choose_guard(text, spec);
  record::GuardSpec& guards = spec.guards;
  if (arguments.on_alarm) guards.on_alarm = parse_named<record::OnAlarm>(*arguments.on_alarm);
  if (guards.on_alarm == record::OnAlarm::clip && guards.activation_range == 0)
    fail(ErrorCode::bad_input, "--on-alarm clip needs --guard activation_range=FACTOR, which says how far");
  if (guards.on_alarm == record::OnAlarm::reload && !guards.fingerprints)
    fail(ErrorCode::bad_input, "--on-alarm reload needs --guard fingerprints, which finds the tensors");
  if (guards.on_alarm != record::OnAlarm::rollback) guards.rollback_every = 1;
  if (!arguments.rollback_every) return;
  if (guards.on_alarm != record::OnAlarm::rollback)
    fail(ErrorCode::bad_input, "--rollback-every is for --on-alarm rollback");
  guards.rollback_every = *arguments.rollback_every;
}

void warn_of_alarms(const record::RunResult& result) {
  std::size_t lines = 0;
  for (const record::Alarm& alarm : result.alarms) {
    if (lines++ < most_lines) spdlog::warn("{}", record::describe(alarm));
  }
  if (result.alarm_count > static_cast<std::int64_t>(most_lines))
    spdlog::warn("and {} more alarms", result.alarm_count - static_cast<std::int64_t>(most_lines));
  lines = 0;
  for (const record::GuardAction& one : result.guard_actions) {
    if (lines++ < most_lines) spdlog::warn("{}", record::describe(one));
  }
  if (result.guard_action_count > static_cast<std::int64_t>(most_lines)) {
    spdlog::warn("and {} more steps after which guards acted",
                 result.guard_action_count - static_cast<std::int64_t>(most_lines));
  }
}

}  // namespace bitrift::cli
