#include "study/policy/policy_part.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

namespace bitrift::study {

std::vector<std::int64_t> policy_intervals(const PolicySpec& spec, record::SaveMode mode,
                                           const PolicyCosts& costs) {
  const auto computed = static_cast<double>(computed_interval(mode, costs, spec.mean_time_between_failures));
  std::set<std::int64_t> intervals;
  for (const double factor : spec.factors)
    intervals.insert(std::max<std::int64_t>(1, std::llround(computed * factor)));
  return {intervals.begin(), intervals.end()};
}

Policy::Policy(const PolicySpec& spec, StudyJournal& journal, campaign::Progress& progress,
               std::filesystem::path trainer, std::filesystem::path base, std::filesystem::path folder)
    : spec_(spec),
      journal_(journal),
      progress_(progress),
      trainer_(std::move(trainer)),
      base_(std::move(base)),
      folder_(std::move(folder)) {}

void Policy::run() {
  for (const record::SaveMode mode : spec_.modes) measure(mode, 0, 0);
  std::map<record::SaveMode, std::vector<std::int64_t>> intervals;
  for (const record::SaveMode mode : spec_.modes) {
    const StudyRow& row = *journal_.find(costs_id(policy_kind, mode, 0, 0));
    const auto& costs = std::get<PolicyCosts>(std::get<PolicyResult>(row.result).found);
    intervals[mode] = policy_intervals(spec_, mode, costs);
  }
  for (std::uint64_t number = 0; number < spec_.lives; ++number) {
    for (const record::SaveMode mode : spec_.modes) {
      const std::vector<std::int64_t>& all = intervals[mode];
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (number == 0 || number % all.size() == i) measure(mode, all[i], number);
      }
      for (const std::int64_t interval : all) live(mode, interval, number);
    }
  }
}

KilledTraining& Policy::training(record::SaveMode mode, std::int64_t interval) {
  const auto at = trainings_.find({mode, interval});
  if (at != trainings_.end()) return at->second;
  const std::string name = fmt::format("{}-{}", name_of(mode), interval);
  return trainings_.try_emplace({mode, interval}, trainer_, base_, folder_ / name, folder_ / (name + ".log"))
      .first->second;
}

void Policy::measure(record::SaveMode mode, std::int64_t interval, std::uint64_t number) {
  if (journal_.find(costs_id(policy_kind, mode, interval, number)) != nullptr) return;
  const PolicyCosts costs =
      training(mode, interval).measure(mode, interval, spec_.mean_time_between_failures);
  journal_.append({policy_kind.format, policy_kind.writer, PolicyResult{mode, interval, number, costs}});
  progress_.advance();
}

void Policy::live(record::SaveMode mode, std::int64_t interval, std::uint64_t number) {
  if (journal_.find(life_id(policy_kind, mode, interval, number)) != nullptr) return;
  const Life life = training(mode, interval).live(mode, interval, time_to_kill(spec_, number));
  journal_.append({policy_kind.format, policy_kind.writer, PolicyResult{mode, interval, number, life}});
  progress_.advance();
}

}  // namespace bitrift::study
