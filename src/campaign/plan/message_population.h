// The population of a kind of message and a bit field: which bit of which message arrives flipped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/fault/wire_strata.h"
#include "record/stratum_name.h"

namespace bitrift::campaign {

/// Steps x (bucket, send of this kind) x elements of its chunk x bits of the field: every bit that a run of
/// the arm sends in such messages, once.
class MessagePopulation {
 public:
  /// Throws Error(bad_input) when strata.messages is not known, a step is beyond the end of a run, the kind
  /// is never sent, the number format has no such bit, or there are more than 2^47 members.
  MessagePopulation(record::MessageKind kind, const std::string& field, const record::WireStrata& strata,
                    std::int64_t epochs);

  [[nodiscard]] std::uint64_t size() const noexcept;
  /// Member `index` of 0 .. size()-1; a bijection.
  [[nodiscard]] record::LinkFault at(std::uint64_t index) const;

 private:
  struct Message {
    std::int64_t bucket, send;
    std::uint64_t before;  // elements of the messages before it
  };
  std::int64_t first_step_ = 1;
  std::uint64_t steps_ = 0, elements_ = 0;  // elements: of all messages of a step
  std::vector<unsigned> bits_;
  std::vector<Message> messages_;
};

/// How many steps a run takes. Throws Error(bad_input) when strata.messages is not known.
[[nodiscard]] std::int64_t steps_of_run(const record::WireStrata& strata, std::int64_t epochs);

/// What a canary in which a link alters a message does: the exponent's highest bit of a number that is added.
[[nodiscard]] record::LinkFault canary_fault(record::LinkCanary canary, const record::WireStrata& strata,
                                             std::int64_t epochs);

}  // namespace bitrift::campaign
