// Schedules with one mistake: the proof against runs with numbers.
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "comm/plan/planner.h"
#include "comm/plan/tree_schedule.h"
#include "comm/verify.h"
#include "interpreter.h"

namespace bitrift::comm {
namespace {

enum class Mistake { dropped, doubled, redirected, swapped, other_kind, other_chunk, wait_dropped };
constexpr EnumNames<7> names_of(Mistake) {
  return {"mistake",
          {"dropped", "doubled", "redirected", "swapped", "other-kind", "other-chunk", "wait-dropped"}};
}

struct Planned {
  Send send;
  std::vector<std::uint32_t> after;
};

std::vector<Planned> rows_of(const Schedule& schedule) {
  std::vector<Planned> rows;
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    const auto after = schedule.after(i);
    rows.push_back({schedule.send(i), {after.begin(), after.end()}});
  }
  return rows;
}

// Waits for it are waits for what it waited for, where a chip can see that.
void drop(std::vector<Planned>& rows, std::uint32_t gone) {
  const auto heirs = rows[gone].after;
  rows.erase(rows.begin() + gone);
  for (Planned& row : rows) {
    if (std::erase(row.after, gone) > 0) {
      for (const std::uint32_t heir : heirs) {
        const Send& before = rows[heir - (heir > gone ? 1 : 0)].send;
        if (before.from == row.send.from || before.from == row.send.to || before.to == row.send.from ||
            before.to == row.send.to)
          row.after.push_back(heir);
      }
    }
    for (std::uint32_t& one : row.after) one -= one > gone ? 1 : 0;
  }
}

void redirect(Planned& row, const Topology& mesh, std::mt19937_64& random) {
  // Mostly to a neighbour, so that the send could be right.
  const auto next = mesh.neighbours(random() % 2 == 0 ? row.send.from : row.send.to);
  std::uint16_t& end = random() % 2 == 0 ? row.send.from : row.send.to;
  end = static_cast<std::uint16_t>(random() % 4 == 0
                                       ? static_cast<int>(random() % static_cast<std::uint64_t>(mesh.chips()))
                                       : next[random() % next.size()]);
}

std::vector<Planned> mistaken(std::vector<Planned> rows, const Schedule& plan, Mistake mistake,
                              std::mt19937_64& random) {
  const auto i = static_cast<std::uint32_t>(random() % rows.size());
  const auto k = static_cast<std::uint32_t>(random() % rows.size());
  switch (mistake) {
    case Mistake::dropped:
      drop(rows, i);
      break;
    case Mistake::doubled: {
      // Right after itself, or only somewhere after it.
      Planned twin = rows[i];
      if (random() % 2 == 0) twin.after.push_back(i);
      const auto place = static_cast<std::uint32_t>(rows.size());
      if (random() % 2 == 0) {
        for (Planned& row : rows) {
          if (std::ranges::count(row.after, i) > 0) row.after.push_back(place);
        }
      }
      rows.push_back(twin);
      break;
    }
    case Mistake::redirected:
      redirect(rows[i], plan.topology(), random);
      break;
    case Mistake::swapped:
      std::swap(rows[i].send, rows[k].send);
      break;
    case Mistake::other_kind:
      rows[i].send.kind = rows[i].send.kind == SendKind::add ? SendKind::copy : SendKind::add;
      break;
    case Mistake::other_chunk:
      rows[i].send.chunk = static_cast<std::uint32_t>(random() % plan.chunks());
      break;
    case Mistake::wait_dropped:
      if (!rows[i].after.empty())
        rows[i].after.erase(rows[i].after.begin() + static_cast<int>(random() % rows[i].after.size()));
      break;
  }
  return rows;
}

std::vector<Schedule> right_ones() {
  std::vector<Schedule> plans;
  const auto mesh = [](const char* size, const char* wrap, std::vector<std::string> dead = {}) {
    return topology_from_text({size, wrap, std::move(dead), {}});
  };
  plans.push_back(plan_schedule(mesh("2x2", "neither"), Scheme::ring));
  plans.push_back(plan_schedule(mesh("4x4", "neither", {"1,1,2x2"}), Scheme::ring));
  plans.push_back(plan_schedule(mesh("3x3", "rows"), Scheme::rings_2d));
  plans.push_back(plan_schedule(mesh("3x4", "neither", {"1,1"}), Scheme::forwarding));
  plans.push_back(plan_schedule(mesh("4x3", "neither", {"0,1"}), Scheme::row_pairs));
  std::mt19937_64 random(5);
  for (const char* size : {"2x2", "3x3", "4x4"}) {
    std::vector<RootedTree> trees(2);
    for (RootedTree& tree : trees) tree.parent = tests::random_tree(mesh(size, "both"), random, tree.root);
    plans.push_back(tree_schedule(mesh(size, "both"), trees, 2));
  }
  return plans;
}

struct Count {
  int wrong = 0, right = 0, cautious = 0;  // cautious: refused, though no run went wrong
};

void judge(const Schedule& plan, Count& count, const std::string& what) {
  constexpr int runs = 40;
  const std::string run = tests::run_often(plan, runs);
  std::string flaw = "not sound";
  bool certain = false;
  try {
    const Verdict verdict = verify(plan);
    flaw = verdict.counter_example ? verdict.counter_example->text : "";
    certain = verdict.counter_example && verdict.counter_example->flaw != Flaw::race &&
              verdict.counter_example->flaw != Flaw::unseen_wait;
  } catch (const Error&) {
    certain = true;
  }
  if (!run.empty()) {
    EXPECT_NE(flaw, "") << what << ": " << run;
    ++count.wrong;
  } else if (flaw.empty()) {
    ++count.right;
  } else {
    EXPECT_FALSE(certain) << what << ": " << flaw << ", yet " << runs << " runs ended well";
    ++count.cautious;
  }
}

TEST(Mutations, EveryWrongScheduleIsRefused) {
  const std::vector<Schedule> plans = right_ones();
  std::map<Mistake, Count> counts;
  std::mt19937_64 random(1811);
  for (int i = 0; i < 1750; ++i) {
    const auto mistake = static_cast<Mistake>(i % 7);
    const Schedule& plan = plans[random() % plans.size()];
    Schedule changed(plan.topology(), plan.scheme(), plan.chunks());
    for (const Planned& row : mistaken(rows_of(plan), plan, mistake, random))
      changed.append(row.send, row.after);
    judge(changed, counts[mistake], fmt::format("{} {} ({})", i, name_of(mistake), name_of(plan.scheme())));
  }
  Count all;
  for (const auto& [mistake, count] : counts) {
    RecordProperty(name_of(mistake), fmt::format("{} wrong, {} right, {} refused for their order",
                                                 count.wrong, count.right, count.cautious));
    EXPECT_EQ(count.wrong + count.right + count.cautious, 250);
    all.right += count.right;
  }
  for (const Mistake mistake : {Mistake::dropped, Mistake::doubled, Mistake::redirected, Mistake::swapped})
    EXPECT_GT(counts[mistake].wrong, 100) << name_of(mistake);
  EXPECT_GT(counts[Mistake::wait_dropped].wrong, 50);
  EXPECT_GT(all.right, 10);
}

TEST(Mutations, TheRightOnesAreAccepted) {
  for (const Schedule& plan : right_ones()) {
    EXPECT_FALSE(verify(plan).counter_example);
    EXPECT_EQ(tests::run_often(plan, 40), "");
  }
}

}  // namespace
}  // namespace bitrift::comm
