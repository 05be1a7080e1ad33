#include "train/recover/team.h"

#include <algorithm>
#include <csignal>
#include <numeric>

#include <unistd.h>

#include "core/log.h"
#include "core/process/host.h"
#include "mpi/pulse.h"
#include "mpi/survivors.h"

namespace bitrift::train {
namespace {

constexpr int release_tag = 2;
// The launcher takes about 10 ms to notice a death anyway; at 0.5 ms, an idle spare made a step of LeNet 1.1
// times as long.
constexpr useconds_t poll_us = 5000;

}  // namespace

Team::Team(const mpi::Communicator& everyone) : everyone_(everyone), active_(everyone) {
  workers_.resize(static_cast<std::size_t>(everyone.size()));
  std::iota(workers_.begin(), workers_.end(), 0);
}

Team::Team(const mpi::Communicator& everyone, int working)
    : everyone_(everyone.duplicate()), me_{everyone.rank(), host_name(), ::getpid()}, may_lose_(true) {
  (void)roll_call({});
  std::vector<int> first(static_cast<std::size_t>(working));
  std::iota(first.begin(), first.end(), 0);
  set_workers(first);
}

Team Team::newcomer(const mpi::Communicator& everyone) {
  Team team;
  team.everyone_ = everyone;
  team.me_ = {-1, host_name(), ::getpid()};
  team.may_lose_ = team.newcomer_ = true;
  return team;
}

std::vector<int> Team::idle() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < everyone_.size(); ++rank) {
    if (std::find(workers_.begin(), workers_.end(), rank) == workers_.end()) ranks.push_back(rank);
  }
  return ranks;
}

bool Team::waits_among_first(int count) const {
  const std::vector<int> ranks = idle();
  const auto me = std::find(ranks.begin(), ranks.end(), everyone_.rank());
  return me != ranks.end() && me - ranks.begin() < count;
}

void Team::replace(const mpi::Communicator& everyone) {
  everyone_ = everyone;
  active_.reset();
  workers_.clear();
}

std::vector<record::Json> Team::roll_call(const record::Json& mine) {
  const record::Json card = {{"id", me_.id}, {"host", me_.host}, {"pid", me_.pid}, {"says", mine}};
  std::vector<record::Json> said;
  members_.clear();
  int next_id = 0;
  for (const std::string& text : everyone_.allgather(card.dump())) {
    const record::Json theirs = record::Json::parse(text);
    members_.push_back({theirs.at("id"), theirs.at("host"), theirs.at("pid")});
    next_id = std::max(next_id, members_.back().id + 1);
    said.push_back(theirs.at("says"));
  }
  for (Member& member : members_) {
    if (member.id < 0) member.id = next_id++;
  }
  me_ = members_[static_cast<std::size_t>(everyone_.rank())];
  newcomer_ = false;
  return said;
}

void Team::set_workers(const std::vector<int>& workers) {
  workers_ = workers;
  const auto at = std::find(workers.begin(), workers.end(), everyone_.rank());
  const bool works = at != workers.end();
  const mpi::Communicator mine =
      everyone_.split(works ? 0 : 1, works ? static_cast<int>(at - workers.begin()) : everyone_.rank());
  active_.reset();
  if (works) active_ = mine;
}

void Team::revoke() const noexcept {
  if (active_) mpi::revoke(*active_);
  mpi::revoke(everyone_);
}

bool Team::stand_by() const {
  try {
    char byte = 0;
    mpi::Request request = everyone_.start_receive(&byte, 1, workers_.front(), release_tag);
    while (!request.test()) {
      mpi::beat(mpi::Place::idle);
      ::usleep(poll_us);
    }
    return true;
  } catch (const mpi::RankFailed&) {
    return false;
  }
}

void Team::release() const noexcept {
  for (const int rank : idle()) {
    try {
      const char byte = 1;
      everyone_.send(&byte, 1, rank, release_tag);
    } catch (const std::exception& error) {
      spdlog::debug("rank {} was not released: {}", rank, error.what());
    }
  }
}

void Team::part(const std::function<void(bool leads)>& last) const {
  mpi::Communicator left = active();
  while (true) {
    last(left.rank() == 0);
    if (mpi::nobody_died(left)) break;
    left = mpi::shrink(left);
  }
  if (left.rank() == 0) release();
}

void fence(const std::vector<Member>& lost) noexcept {
  for (const Member& member : lost) {
    if (member.host == host_name() && member.pid > 1) ::kill(member.pid, SIGKILL);
  }
}

}  // namespace bitrift::train
