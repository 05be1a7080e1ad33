#include "train/fault/message_flips.h"

#include <algorithm>
#include <utility>

namespace bitrift::train {

using record::AlteredMessage;
using record::LinkFault;

void MessageFlips::arm(std::vector<LinkFault> faults) {
  faults_ = std::move(faults);
  altered_.clear();
  at_step(0);
}

void MessageFlips::at_step(std::int64_t step) {
  step_ = step;
  near_ = std::ranges::find(faults_, step, &LinkFault::step) != faults_.end();
}

std::vector<LinkFault> MessageFlips::of_bucket(std::int64_t bucket) const {
  std::vector<LinkFault> found;
  if (!near_) return found;
  std::ranges::copy_if(faults_, std::back_inserter(found), [&](const LinkFault& fault) {
    return fault.step == step_ && fault.bucket == bucket &&
           std::ranges::find(altered_, fault, &AlteredMessage::fault) == altered_.end();
  });
  return found;
}

bool MessageFlips::due_after(std::int64_t steps) const {
  return std::ranges::any_of(faults_, [steps](const LinkFault& fault) { return fault.step > steps; });
}

void MessageFlips::gather(const mpi::Communicator& ranks, record::RunResult& result) const {
  if (faults_.empty()) return;
  std::vector<AlteredMessage> all;
  for (const std::string& text : ranks.allgather(record::Json(altered_).dump())) {
    for (const record::Json& altered : record::Json::parse(text))
      all.push_back(altered.get<AlteredMessage>());
  }
  result.altered_messages.clear();
  for (const LinkFault& fault : faults_) {
    std::ranges::copy_if(all, std::back_inserter(result.altered_messages),
                         [&](const AlteredMessage& altered) { return altered.fault == fault; });
  }
}

std::vector<LinkFault> MessageFlips::missing(const record::RunResult& result) const {
  std::vector<LinkFault> found;
  std::ranges::copy_if(faults_, std::back_inserter(found), [&](const LinkFault& fault) {
    return std::ranges::find(result.altered_messages, fault, &AlteredMessage::fault) ==
           result.altered_messages.end();
  });
  return found;
}

}  // namespace bitrift::train
