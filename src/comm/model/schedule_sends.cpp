#include "comm/model/schedule_sends.h"

#include <limits>
#include <vector>

#include "comm/graph/topology_graph.h"

namespace bitrift::comm {
namespace {

// Finds the sends that must be over at a chip before it reads for a send.
class Waits {
 public:
  explicit Waits(const Schedule& schedule) : schedule_(schedule), seen_(schedule.size(), kNever) {}

  // Valid until the next call.
  const std::vector<SendId>& of(SendId send) {
    const std::uint16_t chip = schedule_.send(send).from;
    found_.clear();
    add(schedule_.after(send), chip, send);
    // A read began after its own waits, which are in its entry. Adds what a write waited for.
    std::size_t looked_at = 0;
    while (looked_at < found_.size()) {  // add() appends
      const SendId before = found_[looked_at++];
      if (schedule_.send(before).to == chip) add(schedule_.after(before), chip, send);
    }
    return found_;
  }

 private:
  static constexpr SendId kNever = std::numeric_limits<SendId>::max();

  void add(std::span<const std::uint32_t> after, std::uint16_t chip, SendId send) {
    for (const std::uint32_t before : after) {
      const Send& one = schedule_.send(before);
      if ((one.from != chip && one.to != chip) || seen_[before] == send) continue;
      seen_[before] = send;
      found_.push_back(before);
    }
  }

  const Schedule& schedule_;
  std::vector<SendId> seen_;  // the last send that was found to wait for this one
  std::vector<SendId> found_;
};

}  // namespace

SendList sends_of(const Schedule& schedule, double bytes) {
  schedule.require_sound();
  const std::vector<int> vertex = vertices_of(schedule.topology());
  const double piece = bytes / schedule.chunks();
  Waits waits(schedule);
  SendList out;
  out.reserve(schedule.size(), 2 * schedule.size());
  for (SendId send = 0; send < schedule.size(); ++send) {
    const Send& one = schedule.send(send);
    out.add(vertex[one.from], vertex[one.to], piece, waits.of(send));
  }
  return out;
}

}  // namespace bitrift::comm
