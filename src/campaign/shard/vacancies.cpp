#include "campaign/shard/vacancies.h"

#include <utility>

#include "campaign/shard/shard_journals.h"

namespace bitrift::campaign {

Vacancies::Vacancies(std::filesystem::path shards, const ShardId& own, std::chrono::duration<double> after)
    : shards_(std::move(shards)), own_(own), after_(after) {}

std::filesystem::path Vacancies::folder_of(int shard) const {
  return shard_folder(shards_, shard, own_.count);
}

std::unique_ptr<Lease> Vacancies::try_take(int shard) {
  Vacancy& vacancy = vacancies_[shard];
  const auto folder = folder_of(shard);
  const int last = last_lease(folder);
  if (last == 0) {
    vacancy.since = vacancy.since.value_or(began_);
  } else {
    const LeaseHolder holder = read_lease(numbered_folder(folder, last));
    const bool ended = holder.over || (holder.here && !holder.lives);
    const bool own = holder.of.empty();
    if (!ended && own) {
      vacancy.since.reset();
    } else if (own ? last != vacancy.start || !vacancy.since : !vacancy.since) {
      vacancy.since = Clock::now();
    }
  }
  vacancy.start = last;
  if (vacancy.since && Clock::now() - *vacancy.since < after_) return nullptr;
  // The taker knows after how long a silent driver on another machine counts as dead.
  if (!vacancy.taker) vacancy.taker = std::make_unique<LeaseTaker>(folder, LeaseTimes{}, own_.text());
  return vacancy.taker->try_take();
}

void Vacancies::give_back(int shard) { vacancies_[shard].since = Clock::now(); }

}  // namespace bitrift::campaign
