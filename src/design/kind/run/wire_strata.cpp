#include "design/kind/run/wire_strata.h"

#include <algorithm>

#include "core/error.h"
#include "core/number/number_format.h"
#include "design/kind/bit_strata.h"
#include "design/kind/run/recoveries.h"

namespace bitrift::design {
namespace {

using record::Json;
using record::LinkFault;
using record::MessageKind;
using record::MessageMap;

enum class WireCanary { unreached, lands };
constexpr EnumNames<2> names_of(WireCanary) {
  return {"canary", {"canary:link-unreached", "canary:link-lands"}};
}

constexpr std::uint64_t most_bits = std::uint64_t{1} << 47U;

const MessageMap& messages_of(const WireStrata& strata) {
  if (!strata.messages)
    fail(ErrorCode::bad_input, "which messages are sent is not known before the campaign has begun");
  return *strata.messages;
}

}  // namespace

Json WireStrata::to_json() const {
  Json value = {{"fields", fields}, {"kinds", kinds}};
  if (steps) value["steps"] = design::to_json(*steps);
  if (messages) value["messages"] = record::to_json(*messages);
  return {{"wire", value}};
}

std::vector<record::Stratum> WireStrata::strata() const {
  std::vector<record::Stratum> list;
  for (const MessageKind kind : kinds) {
    for (const std::string& field : fields)
      list.push_back({fmt::format("{}.{}", name_of(kind), field), name_of(kind), field, 0});
  }
  return list;
}

void WireStrata::check(const record::Document& document, const std::vector<record::Parallel>& arms,
                       const std::vector<record::RecoverySpec>&) const {
  refuse_key(document, "/runner",
             "only bitrift-train has links that alter messages; remove the key, or strata.wire");
  refuse_key(document, "/propagation",
             "follows bits that are altered in a file, and links alter none; remove the key");
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const std::string arm = pointer_of_arm(i);
    refuse_key(document, arm + "/scope",
               "says who loads an altered file, and links alter none; remove the key");
    refuse_key(document, arm + "/precision",
               "decides which bits are sent; give base.train.precision, for all arms");
    if (!arms[i].mesh) {
      refuse_key(document, arm + "/parallel", "messages are planned only on a mesh; name one (docs/mesh.md)");
    }
    if (arms[i] != arms.front()) {
      refuse_key(
          document, arm + "/parallel",
          "differs from that of the first arm: every message must exist in every arm; use one campaign "
          "for each mesh and schedule");
    }
  }
}

std::unique_ptr<const Population> WireStrata::population(std::size_t index, const Setting& setting) const {
  return std::make_unique<MessagePopulation>(kinds.at(index / fields.size()), fields[index % fields.size()],
                                             *this, setting.epochs);
}

std::optional<FactNeeded> WireStrata::fact_needed() const {
  return FactNeeded{"messages", "/strata/wire/messages", "which messages are sent",
                    "the messages that are sent"};
}

std::optional<Json> WireStrata::fact() const {
  return messages ? std::optional(record::to_json(*messages)) : std::nullopt;
}

Strata WireStrata::with_fact(const Json& fact) const {
  WireStrata known = *this;
  known.messages = record::message_map_from_json(fact);
  return known;
}

std::optional<std::int64_t> WireStrata::steps_of_run(std::int64_t epochs) const {
  return messages ? std::optional(messages->steps_per_epoch * epochs) : std::nullopt;
}

std::vector<Canary> WireStrata::canaries(const record::RecoverySpec&) const {
  Canary unreached{name_of(WireCanary::unreached), "a message is to be altered after the end of the run",
                   Required::bitwise, false, "a message was altered that was not to be"};
  Canary lands{name_of(WireCanary::lands),
               "highest exponent bit of a number in a message flipped in the middle of the run",
               Required::altered, true, "the message that was to be altered was not"};
  lands.unmet = "a huge gradient changed nothing";
  return {unreached, lands};
}

void WireStrata::plant(const std::string& stratum, const Setting& setting, const record::RecoverySpec&,
                       record::TrialSpec& run) const {
  const bool reached = parse_named<WireCanary>(stratum) == WireCanary::lands;
  const MessageMap& map = messages_of(*this);
  const auto sent = std::ranges::find(map.sends, MessageKind::add, &MessageMap::Send::kind);
  if (sent == map.sends.end()) fail(ErrorCode::bad_input, "no message is added to anything");
  LinkFault fault;
  fault.step = canary_step(steps_of_run(setting.epochs).value(), reached);
  fault.send = sent - map.sends.begin();
  fault.bit = map.bits() - 2;
  run.faults = std::vector{fault};
}

Sentences WireStrata::sentences(const std::optional<std::uint64_t>& size) const {
  std::vector<std::string> names;
  for (const MessageKind kind : kinds) names.emplace_back(name_of(kind));
  Sentences said;
  said.faults[""] = fmt::format(
      "a flip of one bit of a message of gradients, chosen uniformly from the {}{} of all numbers in "
      "messages "
      "that receivers {}, in {}{}",
      size_text(size), bits_text(fields), in_words(names, "or"), steps ? "" : "all ", steps_text(steps));
  said.rates = rate_of_uniform("bit", "bits of messages");
  said.limits = {
      "The rates are those of one flipped bit in one message of gradients between two chips. They say "
      "nothing "
      "about several flips, lost or late messages, other messages, or faults in checkpoints."};
  said.no_map = "Messages are altered and no tensor of the base, so there are no rates by layer and bit.";
  return said;
}

std::string WireStrata::no_rates_by(const std::string&) const {
  return "in this campaign messages are altered and no tensor; group by field, or by role, which is the kind "
         "of message";
}

Strata wire_strata_from(const record::Document& document) {
  const Json& value = document.value.at("strata").at("wire");
  WireStrata strata;
  value.at("fields").get_to(strata.fields);
  strata.kinds = value.value("kinds", strata.kinds);
  strata.steps = step_range_from(document, "/strata/wire/steps");
  if (value.contains("messages")) strata.messages = record::message_map_from_json(value["messages"]);
  check_fields(document, "/strata/wire/fields", strata.fields);
  return strata;
}

MessagePopulation::MessagePopulation(MessageKind kind, const std::string& field, const WireStrata& strata,
                                     std::int64_t epochs) {
  const MessageMap& map = messages_of(strata);
  const StepRange range = drawn_steps(strata.steps, map.steps_per_epoch, epochs, "strata.wire.steps");
  first_step_ = range.first;
  steps_ = range.count();
  bits_ = bit_field(number_format(map.dtype).value(), field);
  for (std::size_t bucket = 0; bucket < map.buckets.size(); ++bucket) {
    for (std::size_t send = 0; send < map.sends.size(); ++send) {
      const std::int64_t elements = map.elements(bucket, map.sends[send]);
      if (map.sends[send].kind != kind || elements == 0) continue;
      messages_.push_back({static_cast<std::int64_t>(bucket), static_cast<std::int64_t>(send), elements_});
      elements_ += static_cast<std::uint64_t>(elements);
    }
  }
  if (size() == 0) {
    fail(ErrorCode::bad_input, "{}",
         bits_.empty() ? fmt::format("messages carry {}, which has no such bit", map.dtype)
                       : "no such message is sent; take its kind out of strata.wire.kinds");
  }
  if (elements_ * bits_.size() > most_bits / steps_)
    fail(ErrorCode::bad_input, "it holds more than 2^47 bits of messages; name fewer steps");
}

std::uint64_t MessagePopulation::size() const { return elements_ * bits_.size() * steps_; }

LinkFault MessagePopulation::at(std::uint64_t index) const {
  if (index >= size()) fail(ErrorCode::internal, "bit {} of {} in messages", index, size());
  const std::int64_t step = first_step_ + static_cast<std::int64_t>(index % steps_);
  const std::uint64_t bit = index / steps_ % bits_.size();
  const std::uint64_t element = index / steps_ / bits_.size();
  const auto next = std::ranges::upper_bound(messages_, element, {}, &Message::before);
  const Message& message = *(next - 1);
  return {step, message.bucket, message.send, static_cast<std::int64_t>(element - message.before),
          static_cast<int>(bits_[bit])};
}

bool landed(const std::vector<LinkFault>& faults, const RunEnd& end) {
  if (!end.result || end.result->altered_messages.size() != faults.size()) return false;
  return std::ranges::all_of(end.result->altered_messages, [&](const record::AlteredMessage& altered) {
    const std::uint64_t bit = std::uint64_t{1} << static_cast<unsigned>(altered.fault.bit);
    return (altered.old_pattern ^ altered.new_pattern) == bit &&
           std::ranges::count(faults, altered.fault) == 1;
  });
}

}  // namespace bitrift::design
