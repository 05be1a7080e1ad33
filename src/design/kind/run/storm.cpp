#include "design/kind/run/storm.h"

#include <utility>

#include "core/error.h"
#include "core/philox.h"

namespace bitrift::design {
namespace {

// What is drawn in a step, in this order.
enum Choice : std::uint64_t { strikes, rank, phase, point, mode, choices };

}  // namespace

StormPopulation::StormPopulation(Storm storm, const record::KillPoints& points,
                                 const record::Parallel& parallel)
    : storm_(std::move(storm)) {
  for (int rank = 0; rank < parallel.ranks; ++rank) {
    std::vector<std::uint64_t>& own = points_.emplace_back();
    for (const record::TrainingPhase phase : storm_.phases) {
      own.push_back(static_cast<std::uint64_t>(points.of(rank % parallel.stages, phase)));
      if (own.back() > 0) continue;
      fail(ErrorCode::bad_input, "rank {} has no point in phase {}; take it out of strata.process.phases",
           rank, name_of(phase));
    }
  }
}

record::Faults StormPopulation::draw(std::uint64_t key, std::uint64_t number, std::size_t) const {
  std::vector<record::ProcessFault> faults;
  for (std::int64_t step = storm_.steps.first; step <= storm_.steps.last; ++step) {
    const auto below = [&](Choice choice, std::uint64_t bound) {
      const std::uint64_t place = static_cast<std::uint64_t>(step) * choices + choice;
      return random_below(random_u64(key, number, place), 0, 0, bound);
    };
    if (below(strikes, static_cast<std::uint64_t>(storm_.every)) != 0) continue;
    record::ProcessFault fault;
    fault.step = step;
    const std::uint64_t victim = below(rank, points_.size());
    const std::uint64_t part = below(phase, storm_.phases.size());
    fault.rank = static_cast<int>(victim);
    fault.phase = storm_.phases[part];
    fault.point = static_cast<std::int64_t>(below(point, points_[victim][part]));
    fault.how = storm_.how[below(mode, storm_.how.size())];
    if (fault.how == record::FailureMode::slow) fault.slowness = storm_.slowness;
    faults.push_back(fault);
  }
  if (faults.empty()) return {};
  return faults;
}

}  // namespace bitrift::design
