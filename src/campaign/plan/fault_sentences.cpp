#include "campaign/plan/fault_sentences.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/ranges.h>

#include "core/error.h"

namespace bitrift::campaign {
namespace {

using record::Json;
using record::StrataKind;
using Words = std::vector<std::string>;

// a, b and c
std::string in_words(const Words& words, const char* last = "and") {
  if (words.empty()) fail(ErrorCode::internal, "an empty list in a sentence");
  if (words.size() == 1) return words.front();
  return fmt::format("{} {} {}", fmt::join(words.begin(), words.end() - 1, ", "), last, words.back());
}

// 1,620
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t end = text.size(); end > 3;) text.insert(end -= 3, ",");
  return text;
}

// "1,620 ", or nothing.
std::string size_text(const std::optional<std::uint64_t>& size) { return size ? grouped(*size) + " " : ""; }

// How many faults all strata hold; nullopt where that is not known of each, or they are no list.
std::optional<std::uint64_t> size_of(const record::CampaignSpec& spec,
                                     const std::vector<record::Round>& rounds,
                                     const std::vector<record::TrialRecord>& rows) {
  std::map<std::string, std::uint64_t> sizes;
  for (const record::TrialRecord& row : rows) {
    if (row.kind == record::TrialKind::trial) sizes[row.id.stratum] = row.stratum_bits;
  }
  for (const record::Round& round : rounds) {
    for (const record::StratumDraws& one : round.strata) sizes[one.stratum.name] = one.stratum.bits;
  }
  std::uint64_t sum = 0;
  for (const record::Stratum& stratum : record::strata_of(spec.strata)) {
    const auto known = sizes.find(stratum.name);
    if (known == sizes.end() || known->second == 0 || known->second >= record::unbounded_stratum)
      return std::nullopt;
    sum += known->second;
  }
  return sum;
}

std::string bits_text(const std::vector<std::string>& fields) {
  Words names;
  bool plain = true;
  for (const std::string& field : fields) {
    const bool named = field == "sign" || field == "exponent" || field == "mantissa";
    plain = plain && (named || field == "exponent_msb");
    names.push_back(field == "exponent_msb" ? "highest exponent" : field);
  }
  if (plain) return in_words(names) + " bits";
  return fields == Words{"any"} ? "bits" : fmt::format("bits in the fields {}", in_words(fields));
}

std::string steps_text(const std::optional<record::StepRange>& steps) {
  if (!steps) return "steps";
  if (steps->first == steps->last) return fmt::format("step {}", steps->first);
  return fmt::format("steps {} to {}", steps->first, steps->last);
}

std::string fault_of_bits(const record::StrataSpec& strata, const std::optional<std::uint64_t>& size) {
  std::string text = fmt::format("a flip of one bit, chosen uniformly from the {}{} of {} tensors",
                                 size_text(size), bits_text(strata.fields), in_words(strata.roles));
  if (!strata.tensors.empty()) text += " whose names match " + in_words(strata.tensors, "or");
  return text;
}

std::string fault_of_process(const record::ProcessStrata& strata, const std::optional<std::uint64_t>& size) {
  Words phases;
  for (const record::TrainingPhase phase : strata.phases) phases.emplace_back(name_of(phase));
  const char* how = "";
  switch (strata.how) {
    case record::Ending::kill:
      how = "killed with SIGKILL";
      break;
    case record::Ending::stop:
      how = "stopped with SIGSTOP";
      break;
    case record::Ending::exit:
      how = "ended with _exit(0)";
      break;
  }
  const std::string who = strata.together == 1 ? "a rank" : fmt::format("{} ranks at once", strata.together);
  return fmt::format(
      "the failure of {} ({}) in phase {}, chosen uniformly from the {}combinations of ranks, {} and points",
      who, how, in_words(phases, "or"), size_text(size), steps_text(strata.steps));
}

std::string fault_of_wire(const record::WireStrata& strata, const std::optional<std::uint64_t>& size) {
  Words kinds;
  for (const record::MessageKind kind : strata.kinds) kinds.emplace_back(name_of(kind));
  return fmt::format(
      "a flip of one bit of a message of gradients, chosen uniformly from the {}{} of all numbers in "
      "messages "
      "that receivers {}, in {}{}",
      size_text(size), bits_text(strata.fields), in_words(kinds, "or"), strata.steps ? "" : "all ",
      steps_text(strata.steps));
}

std::string fault_of_link(const record::LinkStrata& strata, const std::optional<std::uint64_t>& size) {
  Words kinds;
  for (const record::LinkFailure kind : strata.kinds) {
    kinds.push_back(kind == record::LinkFailure::dead
                        ? "dead"
                        : fmt::format("slow by {:g} s for each message", strata.delay));
  }
  return fmt::format("the failure of a link ({}), chosen uniformly from the {}combinations of {}links and {}",
                     in_words(kinds, "or"), size_text(size), kinds.size() > 1 ? "kinds of failure, " : "",
                     steps_text(strata.steps));
}

std::string value_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  Words words;
  for (const Json& one : value) words.push_back(value_text(one));
  return in_words(words, "or");
}

// The keys of a fault model that are no defaults: "what flip, bits mantissa, count 10".
std::string model_text(const record::FaultModel& model) {
  const Json defaults = to_json(record::FaultModel{});
  std::string text = fmt::format("what {}", name_of(model.what));
  const Json keys = to_json(model);
  for (const auto& [key, value] : keys.items()) {
    if (key == "seed" || key == "what") continue;
    if (const auto usual = defaults.find(key); usual != defaults.end() && *usual == value) continue;
    text += fmt::format(", {} {}", key, value_text(value));
  }
  return text;
}

std::string scope_text(const record::Arm& arm) {
  const record::Scope& scope = arm.scope;
  if (scope.all()) return "";
  if (scope.stage >= 0) return fmt::format("in the file that stage {} loads", scope.stage);
  const int all = arm.parallel.replicas();
  if (scope.count > 0) {
    return fmt::format("in the file that {} of {} replicas load{} (drawn for each fault)", scope.count, all,
                       scope.count == 1 ? "s" : "");
  }
  const bool one = scope.replicas.size() == 1;
  return fmt::format("in the file that replica{} {} of {} load{}", one ? "" : "s",
                     fmt::join(scope.replicas, ", "), all, one ? "s" : "");
}

std::string rate_of_uniform(const char* one, const char* what) {
  return fmt::format(
      "Each rate is that of a {} drawn uniformly from all {} of its line, so that strata count by how many "
      "they hold. In general, it is not the fraction of trials.",
      one, what);
}

void say_bits(FaultSentences& said, const record::StrataSpec& strata,
              const std::optional<std::uint64_t>& size) {
  said.faults[""] = fault_of_bits(strata, size);
  said.rates = rate_of_uniform("bit", "bits");
  said.limits = {
      "The rates are those of single-bit faults in the targeted tensors of the base. They say nothing about "
      "other tensors, other bits, several flips at once, or faults that strike later in training."};
}

void say_models(FaultSentences& said, const record::StrataSpec& strata) {
  said.rates = "Each rate is that of a draw of the fault model of its line.";
  said.limits = {
      "The rates are those of the fault models of the spec, whose draws are in the base when a run loads it. "
      "They say nothing about other faults, or faults that strike later in training."};
  for (const record::StratumModel& one : strata.models) {
    said.faults[one.name] = "a fault of the model " + one.name;
    said.limits.push_back(fmt::format("Model {}: {}.", one.name, model_text(one.model)));
  }
  if (strata.models.size() == 1) said.faults[""] = said.faults.begin()->second;
  said.no_map = "A draw of a fault model is a set of faults, so there are no rates by layer and bit.";
}

void say_process(FaultSentences& said, const record::ProcessStrata& strata,
                 const std::optional<std::uint64_t>& size) {
  said.faults[""] = fault_of_process(strata, size);
  said.rates = rate_of_uniform("failure", "combinations of ranks, steps and points");
  said.limits = {
      "The rates are those of ranks that fail at the points of training that the spec names. They say "
      "nothing "
      "about other points, other numbers of ranks at once, failures of a network, or altered bits."};
  const auto has = [&](record::TrainingPhase phase) {
    return std::ranges::find(strata.phases, phase) != strata.phases.end();
  };
  if (strata.steps && has(record::TrainingPhase::evaluate)) {
    said.limits.emplace_back(
        "In phase evaluate, ranks fail in the evaluation after any epoch, whatever steps are named.");
  }
  if (has(record::TrainingPhase::recovery)) {
    said.limits.emplace_back(
        "In phase recovery, a second rank fails while the failure of a first one is handled.");
  }
  said.no_map = "Ranks fail and no tensor is altered, so there are no rates by layer and bit.";
  said.numbers = false;
}

void say_wire(FaultSentences& said, const record::WireStrata& strata,
              const std::optional<std::uint64_t>& size) {
  said.faults[""] = fault_of_wire(strata, size);
  said.rates = rate_of_uniform("bit", "bits of messages");
  said.limits = {
      "The rates are those of one flipped bit in one message of gradients between two chips. They say "
      "nothing "
      "about several flips, lost or late messages, other messages, or faults in checkpoints."};
  said.no_map = "Messages are altered and no tensor of the base, so there are no rates by layer and bit.";
}

void say_link(FaultSentences& said, const record::LinkStrata& strata,
              const std::optional<std::uint64_t>& size) {
  said.faults[""] = fault_of_link(strata, size);
  said.rates = rate_of_uniform("failure", "combinations of links and steps");
  said.limits = {
      "The rates are those of one link that fails in both directions, from the start of a step until the end "
      "of the run. They say nothing about several links, other delays, lost or altered messages, or faults "
      "in "
      "checkpoints."};
  if (std::ranges::find(strata.kinds, record::LinkFailure::dead) != strata.kinds.end()) {
    said.limits.emplace_back(
        "All ranks know when a link dies: how chips would detect it, and how long that would take, is not "
        "simulated.");
  }
  said.no_map = "Links fail and no tensor is altered, so there are no rates by layer and bit.";
  said.numbers = false;
}

}  // namespace

FaultSentences fault_sentences(const record::CampaignSpec& spec, const std::vector<record::Round>& rounds,
                               const std::vector<record::TrialRecord>& rows) {
  FaultSentences said;
  const record::StrataSpec& strata = spec.strata;
  const auto size = size_of(spec, rounds, rows);
  switch (strata.kind()) {
    case StrataKind::bits:
      say_bits(said, strata, size);
      break;
    case StrataKind::models:
      say_models(said, strata);
      break;
    case StrataKind::process:
      say_process(said, strata.process.value(), size);
      break;
    case StrataKind::wire:
      say_wire(said, strata.wire.value(), size);
      break;
    case StrataKind::link:
      say_link(said, strata.link.value(), size);
      break;
  }
  for (const record::Arm& arm : spec.arms) said.scopes[arm.name] = scope_text(arm);
  said.limits.push_back(
      spec.orders == 1
          ? "All trials see the batches in one order. Other orders may have other rates."
          : fmt::format("The trials of a stratum see the batches in {} orders in turn.", spec.orders));
  return said;
}

Json to_json(const FaultSentences& sentences) {
  return {{"faults", sentences.faults}, {"scopes", sentences.scopes}, {"rates", sentences.rates},
          {"limits", sentences.limits}, {"no_map", sentences.no_map}, {"numbers", sentences.numbers}};
}

}  // namespace bitrift::campaign
