// Runs under mpirun with several rank counts (CMakeLists.txt): every rank runs every test.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mpi/communicator.h"
#include "mpi/environment.h"
#include "mpi/ordered_sum.h"
#include "mpi/survivors.h"

namespace bitrift::mpi {
namespace {

const Environment* environment_pointer = nullptr;
const Communicator& world() { return environment_pointer->world(); }

std::string text_of(int rank) {
  std::string text;
  text.append(static_cast<std::size_t>(rank) * 3, static_cast<char>('a' + rank));
  return text;
}

TEST(Collectives, BroadcastTakesTheRootsValue) {
  const int root = world().size() - 1;
  std::string text = world().rank() == root ? std::string("from the\0last", 13) : "other";
  world().broadcast(text, root);
  EXPECT_EQ(text, std::string("from the\0last", 13));
  std::int64_t number = world().rank() == 0 ? -7 : 1;
  world().broadcast(&number, sizeof number, 0);
  EXPECT_EQ(number, -7);
}

TEST(Collectives, GathersTextsOfDifferentLengthsByRank) {
  const std::vector<std::string> all = world().allgather(text_of(world().rank()));
  ASSERT_EQ(all.size(), static_cast<std::size_t>(world().size()));
  for (int r = 0; r < world().size(); ++r) EXPECT_EQ(all[static_cast<std::size_t>(r)], text_of(r));
  const std::vector<std::string> at_root = world().gather(text_of(world().rank()), 0);
  EXPECT_EQ(at_root, world().rank() == 0 ? all : std::vector<std::string>{});
}

TEST(Collectives, GathersEqualPiecesByRank) {
  const double mine = world().rank() + 0.5;
  std::vector<double> all(static_cast<std::size_t>(world().size()));
  world().allgather_equal(&mine, sizeof mine, all.data());
  for (std::size_t r = 0; r < all.size(); ++r) EXPECT_EQ(all[r], static_cast<double>(r) + 0.5);
}

// Large and small values of both signs, so that another order of additions rounds to other bits.
float value_at(int rank, std::size_t i) {
  const double wave = std::sin(static_cast<double>(i) * 12.9898 + rank * 78.233);
  return static_cast<float>(
      wave * std::pow(10.0, static_cast<double>((i + static_cast<std::size_t>(rank)) % 7) - 3));
}

TEST(OrderedSum, AddsByAscendingRankToTheBit) {
  std::size_t differ_from_descending = 0;
  for (const std::size_t count : {0UL, 1UL, 2UL, 3UL, 7UL, 1000UL, 19'798UL, 100'003UL}) {
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = value_at(world().rank(), i);
    OrderedSum<float> sum(world(), values.data(), count, 0);
    sum.start();
    sum.wait();
    for (std::size_t i = 0; i < count; ++i) {
      float ascending = value_at(0, i), descending = value_at(world().size() - 1, i);
      for (int r = 1; r < world().size(); ++r) {
        ascending += value_at(r, i);
        descending += value_at(world().size() - 1 - r, i);
      }
      ASSERT_EQ(values[i], ascending) << "element " << i << " of " << count;
      differ_from_descending += ascending == descending ? 0U : 1U;
    }
  }
  if (world().size() > 2) {
    EXPECT_GT(differ_from_descending, 1000U) << "values that cannot tell one order from another";
  }
}

// Exponents far apart, and every second term takes most of the one before it away.
template <typename T>
std::vector<std::vector<T>> cancelling_terms(std::size_t terms, std::size_t count) {
  std::mt19937_64 random(terms * 1'000'003 + count);
  std::uniform_int_distribution<int> exponent(-20, 20);
  std::uniform_real_distribution<double> mantissa(-2, 2);
  std::vector<std::vector<T>> all(terms, std::vector<T>(count));
  for (std::size_t v = 0; v < terms; ++v) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = static_cast<T>(std::ldexp(mantissa(random), exponent(random)));
      all[v][i] = v % 2 == 1 && random() % 4 != 0 ? value - all[v - 1][i] : value;
    }
  }
  return all;
}

std::vector<int> places_on(const std::vector<int>& holders, int rank) {
  std::vector<int> places;
  for (std::size_t v = 0; v < holders.size(); ++v) {
    if (holders[v] == rank) places.push_back(static_cast<int>(v));
  }
  return places;
}

// The holders of V replicas on this world: in turn, in blocks, all on one, the last rank empty, at random.
std::vector<std::vector<int>> mappings(int replicas) {
  const int ranks = world().size();
  std::vector<std::vector<int>> all(6);
  std::mt19937 random(static_cast<unsigned>(replicas * 100 + ranks));
  for (int v = 0; v < replicas; ++v) {
    all[0].push_back(v % ranks);
    all[1].push_back(v * ranks / replicas);
    all[2].push_back(ranks - 1);
    all[3].push_back(std::min(v, ranks - 1));                  // 1 + 1 + ... + rest
    all[4].push_back(ranks == 1 ? 0 : 1 + (v % (ranks - 1)));  // nothing on rank 0
    all[5].push_back(static_cast<int>(random() % static_cast<unsigned>(ranks)));
  }
  all.push_back({0});
  if (replicas == 4 && ranks == 3)
    all.insert(all.end(), {{0, 0, 1, 2}, {0, 1, 2, 0}, {1, 1, 2, 2}, {2, 0, 0, 0}});
  if (replicas == 4 && ranks == 2) all.insert(all.end(), {{0, 1, 1, 1}, {0, 0, 0, 1}, {1, 0, 0, 1}});
  return all;
}

template <typename T>
void add_terms_and_compare(const std::vector<int>& holders, std::size_t count) {
  const auto all = cancelling_terms<T>(holders.size(), count);
  std::vector<std::vector<T>> mine;
  for (const int v : places_on(holders, world().rank())) mine.push_back(all[static_cast<std::size_t>(v)]);
  std::vector<T*> terms;
  for (std::vector<T>& term : mine) terms.push_back(term.data());
  OrderedSum<T> sum(world(), terms, count, holders, 3);
  for (int round = 0; round < 2; ++round) {
    if (round == 1 && !mine.empty()) {
      mine[0] = all[static_cast<std::size_t>(places_on(holders, world().rank())[0])];
    }
    sum.start();
    if (round == 1) {
      while (!sum.advance()) continue;
    }
    sum.wait();
    std::vector<T> serial = all[0];
    for (std::size_t v = 1; v < all.size(); ++v) {
      for (std::size_t i = 0; i < count; ++i) serial[i] += all[v][i];
    }
    if (!mine.empty()) {
      ASSERT_TRUE(count == 0 || std::memcmp(mine[0].data(), serial.data(), count * sizeof(T)) == 0)
          << testing::PrintToString(holders) << " count " << count << " round " << round;
    }
  }
}

TEST(OrderedSum, AddsUnevenlyHeldTermsByAscendingTermToTheBit) {
  for (const int replicas : {1, 2, 3, 4, 5, 8}) {
    for (const std::vector<int>& holders : mappings(replicas)) {
      for (const std::size_t count : {0UL, 1UL, 3UL, 7UL, 1000UL, 20'011UL}) {
        add_terms_and_compare<float>(holders, count);
        add_terms_and_compare<double>(holders, count);
      }
    }
  }
}

TEST(OrderedSum, TheComparedTermsTellOrdersApart) {
  const auto all = cancelling_terms<float>(4, 1000);
  int differ = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    const float in_order = ((all[0][i] + all[1][i]) + all[2][i]) + all[3][i];
    const float by_rank = (all[0][i] + all[1][i]) + (all[2][i] + all[3][i]);  // 2 + 2, each added at home
    differ += in_order == by_rank ? 0 : 1;
  }
  EXPECT_GT(differ, 100);
}

TEST(OrderedSum, RefusesTermsThatDoNotFitTheirHolders) {
  std::vector<float> values(4);
  const int me = world().rank();
  using Terms = std::vector<float*>;
  const auto make = [&](Terms terms, std::vector<int> holders) {
    OrderedSum<float>(world(), std::move(terms), values.size(), std::move(holders), 0);
  };
  make({values.data()}, {me});
  EXPECT_THROW(make({}, {}), Error);
  EXPECT_THROW(make({values.data()}, {me, me}), Error);
  EXPECT_THROW(make({values.data(), values.data()}, {me}), Error);
  EXPECT_THROW(make({}, {me}), Error);
  EXPECT_THROW(make({values.data()}, {me, world().size()}), Error);
  EXPECT_THROW(make({values.data()}, {me, -1}), Error);
  EXPECT_THROW(make({nullptr}, {me}), Error);
}

TEST(OrderedSum, LetsGoOfTheArrayWhenItIsDone) {
  auto values = std::make_shared<std::vector<float>>(1000, 1.0F);
  const std::weak_ptr<std::vector<float>> watched = values;
  {
    OrderedSum<float> sum(world(), values->data(), values->size(), 1, values);
    values.reset();
    sum.start();
    sum.wait();
  }
  EXPECT_TRUE(watched.expired());
}

TEST(OrderedSum, DroppedUnderWayItLeavesMpiTheMemory) {
  const auto start_and_drop = [] {
    const auto values = std::make_shared<std::vector<float>>(1000, 1.0F);
    OrderedSum<float>(world(), values->data(), values->size(), 2, values).start();
    return std::weak_ptr<const std::vector<float>>(values);
  };
  // Nobody answers the first rank before it has dropped its sum.
  if (world().rank() == 0) {
    EXPECT_EQ(start_and_drop().expired(), world().size() == 1);
  }
  world().barrier();
  if (world().rank() > 0) start_and_drop();
  world().barrier();
}

TEST(Survivors, AgreeWithoutFailuresToo) {
  EXPECT_TRUE(all_agree(world(), true));
  EXPECT_FALSE(all_agree(world(), world().rank() != 0));
  EXPECT_TRUE(failed_ranks(world()).empty());
}

TEST(Survivors, AreRefusedWhereMpirunWouldEndThem) {
  if (survives_failures() || world().size() == 1) return;
  revoke(world());
  world().barrier();
  try {
    (void)shrink(world());
    ADD_FAILURE() << "a group without failures was shrunk";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
  }
}

TEST(PointToPoint, LargeMessagesGoBothWaysAtOnce) {
  const int next = (world().rank() + 1) % world().size();
  const int previous = (world().rank() + world().size() - 1) % world().size();
  std::vector<int> out(1 << 20, world().rank()), in(out.size(), -1);
  const std::size_t bytes = out.size() * sizeof(int);
  Request receiving = world().start_receive(in.data(), bytes, previous, 5);
  Request sending = world().start_send(out.data(), bytes, next, 5);
  receiving.wait();
  sending.wait();
  EXPECT_EQ(in, std::vector<int>(in.size(), previous));
}

TEST(PointToPoint, ARequestIsTestedWithoutWaiting) {
  if (world().rank() == 0) {
    int answer = 0;
    Request receiving = world().start_receive(&answer, sizeof answer, 1, 6);
    EXPECT_FALSE(receiving.test());
    const char go = 1;
    world().send(&go, 1, 1, 7);
    while (!receiving.test()) continue;
    EXPECT_EQ(answer, 42);
    EXPECT_TRUE(receiving.test());
    receiving.wait();
  } else if (world().rank() == 1) {
    char go = 0;
    world().receive(&go, 1, 0, 7);
    const int answer = 42;
    world().send(&answer, sizeof answer, 0, 6);
  }
}

TEST(PointToPoint, ADuplicateKeepsItsMessagesApart) {
  const Communicator other = world().duplicate();
  EXPECT_EQ(other.rank(), world().rank());
  EXPECT_EQ(other.size(), world().size());
  if (world().rank() == 0) {
    const int here = 1, there = 2;
    world().send(&here, sizeof here, 1, 8);
    other.send(&there, sizeof there, 1, 8);
  } else if (world().rank() == 1) {
    int here = 0, there = 0;
    other.receive(&there, sizeof there, 0, 8);
    world().receive(&here, sizeof here, 0, 8);
    EXPECT_EQ(here, 1);
    EXPECT_EQ(there, 2);
  }
}

TEST(PointToPoint, TagsKeepMessagesApart) {
  if (world().rank() == 0) {
    const int first = 1, second = 2;
    world().send(&first, sizeof first, 1, 10);
    world().send(&second, sizeof second, 1, 20);
  } else if (world().rank() == 1) {
    int first = 0, second = 0;
    Request later = world().start_receive(&second, sizeof second, 0, 20);
    world().receive(&first, sizeof first, 0, 10);
    later.wait();
    EXPECT_EQ(first, 1);
    EXPECT_EQ(second, 2);
  }
}

TEST(Errors, AMessageOfAnotherSizeIsToldWithBothSizesOrMpisText) {
  const std::vector<char> bytes(64);
  if (world().rank() == 0) {
    world().send(bytes.data(), 8, 1, 1);
    world().send(bytes.data(), 64, 1, 2);
  } else if (world().rank() == 1) {
    std::vector<char> room(64);
    try {
      world().receive(room.data(), 16, 0, 1);
      ADD_FAILURE() << "a short message passed";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("expected 16 bytes from rank 0 and received 8"),
                std::string::npos);
    }
    try {
      world().receive(room.data(), 16, 0, 2);
      ADD_FAILURE() << "a truncated message passed";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).rfind("MPI_Recv: ", 0), 0U) << error.what();
      EXPECT_EQ(error.code(), ErrorCode::internal);
    }
  }
}

TEST(Errors, ARankThatDoesNotExistIsAnException) {
  const char byte = 0;
  EXPECT_THROW(world().send(&byte, 1, world().size(), 0), Error);
}

TEST(Library, HasANameOfOneLine) {
  const std::string name = environment_pointer->library();
  EXPECT_FALSE(name.empty());
  EXPECT_TRUE(std::none_of(name.begin(), name.end(), [](char c) { return c == '\0' || c == '\n'; })) << name;
}

TEST(Agreed, TheLowestFailingRankSpeaksForAll) {
  const int from = world().size() / 2;
  std::string heard;
  try {
    agreed(world(), [&] {
      if (world().rank() >= from) fail(ErrorCode::conflict, "rank {} is not well", world().rank());
    });
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    heard = error.what();
  }
  EXPECT_EQ(heard, "rank " + std::to_string(from) + " is not well");
  agreed(world(), [] {});
  world().barrier();
}

}  // namespace
}  // namespace bitrift::mpi

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  bitrift::mpi::Environment environment;
  bitrift::mpi::environment_pointer = &environment;
  // arguments[1]: how many ranks the test asked for; without this a launcher that starts N single ranks would
  // pass.
  if (count != 2 || std::to_string(environment.world().size()) != arguments[1]) {
    std::fprintf(stderr, "expected a world of %s ranks, found %d\n", count > 1 ? arguments[1] : "?",
                 environment.world().size());
    environment.abort(2);
  }
  if (environment.world().rank() != 0) {
    // Failures of other ranks go to stderr all the same.
    delete testing::UnitTest::GetInstance()->listeners().Release(
        testing::UnitTest::GetInstance()->listeners().default_result_printer());
  }
  // These need a peer.
  if (environment.world().size() == 1) testing::GTEST_FLAG(filter) = "-PointToPoint.*:Errors.*";
  const int failed = RUN_ALL_TESTS();
  if (failed != 0) environment.abort(1);
  environment.finalize();
  return 0;
}
