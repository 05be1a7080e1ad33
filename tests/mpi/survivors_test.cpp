// Ranks die, the others go on: as fewer, or with processes started in their place. Every survivor checks the
// new group by a barrier, texts from all, and a sum. Needs ULFM.
//
//   mpirun --with-ft ulfm -n N mpi_survivors SCENARIO
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "mpi/communicator.h"
#include "mpi/ordered_sum.h"
#include "survivor_verdict.h"

namespace bitrift::mpi {
namespace {

std::string program;

void expect(bool holds, const std::string& what) {
  if (!holds) fail(ErrorCode::internal, "{}", what);
}

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  std::abort();
}

void check_sum(const Communicator& group) {
  const auto values = std::make_shared<std::vector<double>>(1000, group.rank() + 1.0);
  OrderedSum<double> sum(group, values->data(), values->size(), 0, values);
  sum.start();
  sum.wait();
  const double all = group.size() * (group.size() + 1) / 2.0;
  expect(std::count(values->begin(), values->end(), all) == 1000, "a wrong sum");
}

// A sum that all ranks have when this returns on one: none is still in it when another revokes the group.
void sum_together(const Communicator& group) {
  check_sum(group);
  expect(all_agree(group, true), "no agreement after a sum");
}

// `names`: what each rank of the group calls itself, in order.
void check_group(const Communicator& group, const std::string& mine, const std::vector<std::string>& names) {
  group.barrier();
  expect(group.allgather(mine) == names, "another group than the one that should be left");
  check_sum(group);
  expect(all_agree(group, true), "no agreement on yes");
  expect(!all_agree(group, group.rank() != group.size() - 1), "agreement against the last rank");
  expect(nobody_died(group), "no agreement that nobody died");
}

// Works until somebody dies, and says how long each part of the way out took.
Communicator recover(const Communicator& group, std::size_t dead) {
  const auto start = Clock::now();
  try {
    while (milliseconds_since(start) < 10'000) check_sum(group);
    expect(false, "nobody died");
  } catch (const RankFailed&) {
  }
  const double noticed = milliseconds_since(start);
  auto before = Clock::now();
  revoke(group);
  const double revoked = milliseconds_since(before);
  before = Clock::now();
  expect(all_agree(group, true), "no agreement after a death");
  const double agreed = milliseconds_since(before);
  before = Clock::now();
  Communicator living = shrink(group);
  if (living.rank() == 0) {
    fmt::print("{} -> {} ranks: noticed {:.1f} ms, revoke {:.2f} ms, agree {:.2f} ms, shrink {:.2f} ms\n",
               group.size(), living.size(), noticed, revoked, agreed, milliseconds_since(before));
  }
  expect(living.size() + static_cast<int>(dead) == group.size(), "another number of survivors");
  expect(failed_ranks(group).size() == dead, "another number of dead ranks");
  expect(!nobody_died(group), "agreement that nobody died after a death");
  revoke(group);
  return living;
}

std::vector<std::string> names_without(const Communicator& group, const std::vector<int>& dead) {
  std::vector<std::string> names;
  for (int r = 0; r < group.size(); ++r) {
    if (std::find(dead.begin(), dead.end(), r) == dead.end()) names.push_back(std::to_string(r));
  }
  return names;
}

Communicator lose(const Communicator& group, const std::vector<int>& dead) {
  sum_together(group);
  if (std::find(dead.begin(), dead.end(), group.rank()) != dead.end()) die();
  Communicator living = recover(group, dead.size());
  check_group(living, std::to_string(group.rank()), names_without(group, dead));
  return living;
}

Communicator lose_until_two_are_left(Communicator group) {
  for (int round = 0; group.size() > 2; ++round) group = lose(group, {round * 5 % group.size()});
  return group;
}

// Rank 1 dies, and rank 2 while the others deal with that; `point`: how far it comes.
Communicator lose_in_recovery(const Communicator& group, int point) {
  sum_together(group);
  if (group.rank() == 1) die();
  try {
    while (true) check_sum(group);
  } catch (const RankFailed&) {
  }
  const auto reach = [&](int here) {
    if (group.rank() == 2 && here == point) die();
  };
  const auto start = Clock::now();
  reach(0);
  revoke(group);
  reach(1);
  expect(all_agree(group, true), "no agreement while a rank dies");
  reach(2);
  Communicator living = shrink(group);
  reach(3);
  try {
    while (living.size() > group.size() - 2) check_sum(living);
  } catch (const RankFailed&) {
    revoke(living);
    living = shrink(living);
  }
  check_group(living, std::to_string(group.rank()), names_without(group, {1, 2}));
  if (living.rank() == 0) fmt::print("two deaths, one in recovery: {:.1f} ms\n", milliseconds_since(start));
  return living;
}

Communicator replace(const Communicator& group, const std::string& scenario) {
  const auto start = Clock::now();
  Communicator all = spawn(group, {program, scenario});
  if (all.rank() == 0)
    fmt::print("{} -> {} ranks: spawn {:.1f} ms\n", group.size(), all.size(), milliseconds_since(start));
  expect(all.size() == group.size() + 1, "another number of ranks after a spawn");
  std::vector<std::string> names = names_without(group, {});
  names.emplace_back("new");
  check_group(all, std::to_string(group.rank()), names);
  return all;
}

// In the process that replace() started.
Communicator join(const Communicator& all) {
  expect(started_by_launcher(), "a spawned process does not know its launcher");
  expect(survives_failures(), "a spawned process does not survive failures");
  std::vector<std::string> names = names_without(all, {all.size() - 1});
  names.emplace_back("new");
  check_group(all, "new", names);
  return all;
}

Communicator replace_twice(const Communicator& group) {
  const Communicator whole = replace(lose(group, {1}), "join-and-die");
  return replace(recover(whole, 1), "join");
}

using Scenario = std::function<Communicator(const Communicator&)>;

const std::map<std::string, Scenario>& scenarios() {
  static const std::map<std::string, Scenario> all = {
      {"one", [](const Communicator& group) { return lose(group, {2}); }},
      {"root", [](const Communicator& group) { return lose(group, {0}); }},
      {"two",
       [](const Communicator& group) {
         return lose(group, {0, 2});
       }},
      {"until-two", lose_until_two_are_left},
      {"before-revoke", [](const Communicator& group) { return lose_in_recovery(group, 0); }},
      {"before-agree", [](const Communicator& group) { return lose_in_recovery(group, 1); }},
      {"before-shrink", [](const Communicator& group) { return lose_in_recovery(group, 2); }},
      {"after-shrink", [](const Communicator& group) { return lose_in_recovery(group, 3); }},
      {"replace", [](const Communicator& group) { return replace(lose(group, {1}), "join"); }},
      {"replace-root", [](const Communicator& group) { return replace(lose(group, {0}), "join"); }},
      {"replace-twice", replace_twice},
      {"join", join},
      {"join-and-die", [](const Communicator& group) -> Communicator {
         join(group);
         die();
       }}};
  return all;
}

}  // namespace
}  // namespace bitrift::mpi

int main(int count, char** words) {
  using namespace bitrift::mpi;
  if (count != 2 || scenarios().count(words[1]) == 0) {
    std::fprintf(stderr, "usage: mpirun --with-ft ulfm -n N %s SCENARIO\n", words[0]);
    return 2;
  }
  program = words[0];
  Environment environment;
  limit_seconds(30);
  try {
    const std::optional<Communicator> spawned = spawned_into();
    const Communicator left = scenarios().at(words[1])(spawned ? *spawned : environment.world());
    give_verdict(environment, left, true);
  } catch (const std::exception& error) {
    fmt::print("rank {}: {}\n", environment.world().rank(), error.what());
    std::fflush(stdout);
    ::_exit(1);
  }
}
