#include "campaign/plan/message_population.h"

#include <algorithm>

#include "core/error.h"
#include "core/number/number_format.h"

namespace bitrift::campaign {
namespace {

using record::LinkFault;
using record::MessageKind;
using record::MessageMap;

constexpr std::uint64_t most_bits = std::uint64_t{1} << 47U;

const MessageMap& messages_of(const record::WireStrata& strata) {
  if (!strata.messages)
    fail(ErrorCode::bad_input, "which messages are sent is not known before the campaign has begun");
  return *strata.messages;
}

}  // namespace

std::int64_t steps_of_run(const record::WireStrata& strata, std::int64_t epochs) {
  return messages_of(strata).steps_per_epoch * epochs;
}

MessagePopulation::MessagePopulation(MessageKind kind, const std::string& field,
                                     const record::WireStrata& strata, std::int64_t epochs) {
  const MessageMap& map = messages_of(strata);
  const std::int64_t length = steps_of_run(strata, epochs);
  const record::StepRange range = strata.steps.value_or(record::StepRange{1, length});
  if (range.last > length) {
    fail(ErrorCode::bad_input,
         "strata.wire.steps names step {}, but a run takes {} steps ({} an epoch): name steps of 1 to {}, or "
         "raise resume.epochs",
         range.last, length, map.steps_per_epoch, length);
  }
  first_step_ = range.first;
  steps_ = static_cast<std::uint64_t>(range.last - range.first + 1);
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

std::uint64_t MessagePopulation::size() const noexcept { return elements_ * bits_.size() * steps_; }

LinkFault MessagePopulation::at(std::uint64_t index) const {
  if (index >= size()) fail(ErrorCode::internal, "bit {} of {} in messages", index, size());
  const std::int64_t step = first_step_ + static_cast<std::int64_t>(index % steps_);
  const std::uint64_t bit = index / steps_ % bits_.size();
  const std::uint64_t element = index / steps_ / bits_.size();
  const auto behind = std::ranges::upper_bound(messages_, element, {}, &Message::before);
  const Message& message = *(behind - 1);
  return {step, message.bucket, message.send, static_cast<std::int64_t>(element - message.before),
          static_cast<int>(bits_[bit])};
}

LinkFault canary_fault(record::LinkCanary canary, const record::WireStrata& strata, std::int64_t epochs) {
  const MessageMap& map = messages_of(strata);
  const std::int64_t length = steps_of_run(strata, epochs);
  const auto sent = std::ranges::find(map.sends, MessageKind::add, &MessageMap::Send::kind);
  if (sent == map.sends.end()) fail(ErrorCode::bad_input, "no message is added to anything");
  LinkFault fault;
  fault.step = canary == record::LinkCanary::unreached ? length + 1 : (length + 1) / 2;
  fault.send = sent - map.sends.begin();
  fault.bit = map.bits() - 2;
  return fault;
}

}  // namespace bitrift::campaign
