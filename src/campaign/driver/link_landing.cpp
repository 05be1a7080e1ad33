#include "campaign/driver/link_landing.h"

#include <algorithm>

namespace bitrift::campaign {

bool messages_altered(const Ran& ran) {
  const std::vector<record::LinkFault>& faults = ran.spec.faults.links();
  if (!ran.result || ran.result->altered_messages.size() != faults.size()) return false;
  return std::ranges::all_of(ran.result->altered_messages, [&](const record::AlteredMessage& altered) {
    const std::uint64_t bit = std::uint64_t{1} << static_cast<unsigned>(altered.fault.bit);
    return (altered.old_pattern ^ altered.new_pattern) == bit &&
           std::ranges::count(faults, altered.fault) == 1;
  });
}

bool links_failed(const Ran& ran) {
  return ran.result && std::ranges::equal(ran.result->failed_links, ran.spec.faults.failed_links(), {},
                                          &record::LinkReport::link);
}

}  // namespace bitrift::campaign
