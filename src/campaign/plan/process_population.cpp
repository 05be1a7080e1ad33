#include "campaign/plan/process_population.h"

#include <algorithm>

#include "core/error.h"

namespace bitrift::campaign {
namespace {

using record::ProcessFault;
using record::TrainingPhase;

// Products of a number up to this and a number of ranks fit 64 bits.
constexpr std::uint64_t most_members = std::uint64_t{1} << 47U;

// At most most_members + 1, which means: too many.
std::uint64_t capped_product(std::uint64_t a, std::uint64_t b) {
  if (a != 0 && b > most_members / a) return most_members + 1;
  return a * b;
}

// How many sets of `size` there are among `all`; capped as above.
std::uint64_t subsets(std::uint64_t all, std::uint64_t size) {
  if (size > all) return 0;
  std::uint64_t count = 1;
  for (std::uint64_t i = 0; i < std::min(size, all - size); ++i) {
    count = count * (all - i) / (i + 1);
    if (count > most_members) return most_members + 1;
  }
  return count;
}

// Set `number` of those of this size among 0, 1, ..., all - 1, in colexicographic order: the combinatorial
// number system (Knuth, TAOCP 4A, 7.2.1.3, theorem L).
std::vector<std::uint64_t> subset_at(std::uint64_t number, std::uint64_t size, std::uint64_t all) {
  std::vector<std::uint64_t> set;
  for (; size > 0; --size) {
    do {
      --all;
    } while (subsets(all, size) > number);
    set.push_back(all);
    number -= subsets(all, size);
  }
  return set;
}

}  // namespace

std::int64_t steps_of_run(const record::ProcessStrata& strata, std::int64_t epochs) {
  if (!strata.points) {
    fail(ErrorCode::bad_input, "how many points a phase has is not known before the campaign has begun");
  }
  return strata.points->steps_per_epoch * epochs;
}

ProcessPopulation::ProcessPopulation(TrainingPhase phase, const record::ProcessStrata& strata,
                                     const record::Parallel& parallel, std::int64_t epochs)
    : phase_(phase), how_(strata.how), together_(strata.together) {
  const std::int64_t length = steps_of_run(strata, epochs);
  if (strata.points->stages.size() != static_cast<std::size_t>(parallel.stages)) {
    fail(ErrorCode::bad_input, "strata.process.points has {} stages, the arms have {}; restore campaign.json",
         strata.points->stages.size(), parallel.stages);
  }
  const record::StepRange range = strata.steps.value_or(record::StepRange{1, length});
  if (range.last > length) {
    fail(ErrorCode::bad_input,
         "strata.process.steps names step {}, but a run takes {} steps ({} an epoch): name steps of 1 to {}, "
         "or raise resume.epochs",
         range.last, length, strata.points->steps_per_epoch, length);
  }
  first_step_ = range.first;
  steps_ = static_cast<std::uint64_t>(range.last - range.first + 1);
  if (phase == TrainingPhase::evaluate) {
    first_step_ = stride_ = strata.points->steps_per_epoch;
    steps_ = static_cast<std::uint64_t>(epochs);
  }
  find_victims(strata, parallel);
  if (size() == 0 || capped_product(places_, steps_) > most_members) {
    fail(ErrorCode::bad_input, "{}",
         size() == 0
             ? "no rank has a point in this phase; take it out of strata.process.phases"
             : "it holds more than 2^47 sets of ranks, steps and points; lower strata.process.together");
  }
}

void ProcessPopulation::find_victims(const record::ProcessStrata& strata, const record::Parallel& parallel) {
  for (int rank = 0; rank < parallel.ranks; ++rank) {
    const std::int64_t points = strata.points->of(rank % parallel.stages, phase_);
    if (points > 0) victims_.push_back({rank, static_cast<std::uint64_t>(points)});
  }
  std::stable_sort(victims_.begin(), victims_.end(),
                   [](const Victim& a, const Victim& b) { return a.points < b.points; });
  const std::uint64_t ranks = victims_.size();
  if (phase_ == TrainingPhase::recovery) {
    places_ = ranks < 2 ? 0 : ranks * (ranks - 1) * victims_.front().points;
    return;
  }
  for (std::uint64_t last = 0; last < ranks; ++last) {
    before_.push_back(places_);
    const auto others = static_cast<std::uint64_t>(together_ - 1);
    places_ += capped_product(subsets(last, others), victims_[last].points);
    places_ = std::min(places_, most_members + 1);
  }
}

std::vector<ProcessFault> ProcessPopulation::at(std::uint64_t index) const {
  if (index >= size()) fail(ErrorCode::internal, "member {} of {} processes that fail", index, size());
  const std::int64_t step = first_step_ + static_cast<std::int64_t>(index % steps_) * stride_;
  const std::uint64_t place = index / steps_;
  if (phase_ == TrainingPhase::recovery) return pair_at(place, step);
  const auto last =
      static_cast<std::uint64_t>(std::upper_bound(before_.begin(), before_.end(), place) - before_.begin()) -
      1;
  const std::uint64_t rest = place - before_[last];
  const auto point = static_cast<std::int64_t>(rest % victims_[last].points);
  std::vector<std::uint64_t> set =
      subset_at(rest / victims_[last].points, static_cast<std::uint64_t>(together_ - 1), last);
  set.push_back(last);
  std::vector<ProcessFault> faults;
  faults.reserve(set.size());
  for (const std::uint64_t victim : set) faults.push_back({victims_[victim].rank, step, phase_, point, how_});
  std::sort(faults.begin(), faults.end(),
            [](const ProcessFault& a, const ProcessFault& b) { return a.rank < b.rank; });
  return faults;
}

std::vector<ProcessFault> ProcessPopulation::pair_at(std::uint64_t place, std::int64_t step) const {
  const std::uint64_t points = victims_.front().points;
  const std::uint64_t pair = place / points;
  const std::uint64_t first = pair / (victims_.size() - 1);
  std::uint64_t second = pair % (victims_.size() - 1);
  if (second >= first) ++second;
  return {{victims_[first].rank, step, TrainingPhase::reduce, 0, how_},
          {victims_[second].rank, step, phase_, static_cast<std::int64_t>(place % points), how_}};
}

std::vector<ProcessFault> canary_faults(record::ProcessCanary canary, const record::CampaignSpec& spec,
                                        const record::Arm& arm) {
  const std::int64_t length = steps_of_run(spec.strata.process.value(), spec.resume_epochs);
  ProcessFault fault;
  fault.rank = arm.parallel.ranks - 1;
  fault.phase = TrainingPhase::reduce;
  fault.step = canary == record::ProcessCanary::unreached ? length + 1 : (length + 1) / 2;
  return {fault};
}

}  // namespace bitrift::campaign
