#include "design/kind/canary.h"

#include <fmt/format.h>

namespace bitrift::design {
namespace {

constexpr std::string_view reader_prefix = "canary:reads-";

// Its form in messages.
const char* short_name(Required required) {
  switch (required) {
    case Required::bitwise:
      return "bitwise";
    case Required::bitwise_without_recovery:
      return "bitwise without a recovery";
    case Required::bitwise_after_recovery:
      return "bitwise after a recovery";
    case Required::unrecovered:
      return "unrecovered";
    case Required::crash:
      return "crash";
    case Required::sdc:
      return "SDC";
    case Required::crash_or_sdc:
      return "crash or SDC";
    case Required::altered:
      break;
  }
  return "altered";
}

bool is_as(Required required, const record::Outcome& outcome) {
  const bool bitwise = outcome.reason == record::Reason::bitwise;
  switch (required) {
    case Required::bitwise:
      return bitwise;
    case Required::bitwise_without_recovery:
      return bitwise && !outcome.recovered;
    case Required::bitwise_after_recovery:
      return bitwise && outcome.recovered;
    case Required::unrecovered:
      return outcome.reason == record::Reason::unrecovered;
    case Required::crash:
      return outcome.outcome_class() == record::OutcomeClass::crash;
    case Required::sdc:
      return outcome.outcome_class() == record::OutcomeClass::sdc;
    case Required::crash_or_sdc:
      return outcome.outcome_class() != record::OutcomeClass::masked;
    case Required::altered:
      break;
  }
  return !outcome.bitwise_equal;
}

}  // namespace

std::string words_of(Required required) {
  switch (required) {
    case Required::bitwise:
      return "masked (bitwise)";
    case Required::bitwise_without_recovery:
      return "masked (bitwise), without a recovery";
    case Required::bitwise_after_recovery:
      return "masked (bitwise), after a recovery";
    case Required::unrecovered:
      return "crash (unrecovered)";
    case Required::crash:
      return "crash";
    case Required::sdc:
      return "SDC";
    case Required::crash_or_sdc:
      return "crash or SDC";
    case Required::altered:
      break;
  }
  return "any, but the final state differs from the golden run's";
}

std::string words_of(const record::Outcome& outcome) {
  return fmt::format("{} ({})", name_of(outcome.outcome_class()), name_of(outcome.reason));
}

std::string problem_of(const Canary& canary, const record::Outcome& outcome) {
  if (is_as(canary.required, outcome)) return "";
  if (!canary.unmet.empty()) return canary.unmet;
  return fmt::format("must be {}, is {}{}", short_name(canary.required), words_of(outcome),
                     outcome.recovered ? " after a recovery" : "");
}

Canary canary_of(BaseCanary canary) {
  switch (canary) {
    case BaseCanary::nan:
      return {name_of(canary), "first weight tensor set to NaN", Required::crash};
    case BaseCanary::negate:
      return {name_of(canary), "last layer negated, no step taken", Required::sdc};
    case BaseCanary::none:
      break;
  }
  return {name_of(canary), "nothing", Required::bitwise};
}

std::string reader_canary(std::string_view role) { return fmt::format("{}{}", reader_prefix, role); }

std::optional<std::string> role_of_reader_canary(std::string_view stratum) {
  if (!stratum.starts_with(reader_prefix)) return std::nullopt;
  return std::string(stratum.substr(reader_prefix.size()));
}

Canary reader_canary_of(const std::string& role) {
  Canary canary{reader_canary(role),
                fmt::format("NaN in all targeted floating-point tensors of role {}", role),
                Required::altered};
  canary.unmet = fmt::format(
      "the trainer does not read role {}: a run with all its tensors NaN ended bitwise equal to the golden "
      "run; make the trainer load them, or take the role out of strata",
      role);
  canary.may_be_refused = true;
  return canary;
}

}  // namespace bitrift::design
