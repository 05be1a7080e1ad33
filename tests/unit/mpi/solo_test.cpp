// A world of one rank, without MPI.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mpi/communicator.h"
#include "mpi/environment.h"
#include "mpi/mesh_allreduce.h"
#include "mpi/ordered_sum.h"
#include "mpi/survivors.h"

namespace bitrift::mpi::solo_test {
namespace {

TEST(SoloCommunicator, CollectivesAreLocal) {
  const Environment environment;
  const Communicator& solo = environment.world();
  EXPECT_EQ(solo.rank(), 0);
  EXPECT_EQ(solo.size(), 1);
  EXPECT_EQ(environment.library(), "none");
  solo.barrier();
  std::string text = "unchanged";
  solo.broadcast(text, 0);
  EXPECT_EQ(text, "unchanged");
  EXPECT_EQ(solo.gather("a", 0), std::vector<std::string>{"a"});
  EXPECT_EQ(solo.allgather("b"), std::vector<std::string>{"b"});
  const double value = 1.5;
  double copy = 0;
  solo.allgather_equal(&value, sizeof value, &copy);
  EXPECT_EQ(copy, 1.5);
}

TEST(SoloCommunicator, TheOnlyLiveChipKeepsEveryBit) {
  const comm::Schedule plan(comm::topology_from_text({"1x2", "neither", {"0,0"}, {}}), comm::Scheme::other,
                            1);
  std::vector<double> values = {-0.0, 5e-324};
  MeshAllreduce<double> sum(Communicator(), std::make_shared<const LocalSchedule>(plan, 0), values.data(),
                            values.size(), 0);
  sum.start();
  EXPECT_TRUE(sum.advance());
  sum.wait();
  EXPECT_TRUE(std::signbit(values[0]));
  EXPECT_EQ(values[1], 5e-324);
}

TEST(SoloCommunicator, SumOfOneRankKeepsEveryBit) {
  std::vector<float> values = {-0.0F, 1e-45F, 3.0F};
  OrderedSum<float> sum(Communicator(), values.data(), values.size(), 0);
  sum.start();
  EXPECT_TRUE(sum.advance());
  EXPECT_TRUE(std::signbit(values[0]));
  EXPECT_EQ(values[1], 1e-45F);
}

TEST(SoloCommunicator, SeveralTermsOfOneRankAreAddedInOrder) {
  // (1 + 1e8) - 1e8 is 0 in single precision; any other order gives 1.
  std::vector<float> first = {1.0F, 2.0F}, second = {1e8F, 0.0F}, third = {-1e8F, 3.0F};
  OrderedSum<float> sum(Communicator(), {first.data(), second.data(), third.data()}, 2, {0, 0, 0}, 0);
  sum.start();
  sum.wait();
  EXPECT_EQ(first, (std::vector<float>{0.0F, 5.0F}));
  EXPECT_EQ(second, (std::vector<float>{1e8F, 0.0F}));
}

TEST(SoloCommunicator, DuplicatesToItself) {
  const Communicator solo = Communicator().duplicate();
  EXPECT_EQ(solo.size(), 1);
  EXPECT_FALSE(solo.has_state());
}

TEST(SoloCommunicator, SurvivesByItself) {
  const Communicator solo;
  EXPECT_FALSE(survives_failures());
  revoke(solo);
  EXPECT_TRUE(failed_ranks(solo).empty());
  EXPECT_TRUE(all_agree(solo, true));
  EXPECT_FALSE(all_agree(solo, false));
  EXPECT_EQ(shrink(solo).size(), 1);
  EXPECT_FALSE(spawned_into().has_value());
  try {
    (void)spawn(solo, {"/bin/true"});
    FAIL() << "a process without mpirun";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
  }
}

TEST(Launcher, WatchesHeartbeatsOnlyOnDemand) {
  const std::vector<std::string> plain = survival_options(false), watched = survival_options(true);
  if (plain.empty() && watched.empty()) return;  // this MPI has no ULFM
  EXPECT_EQ(plain, (std::vector<std::string>{"--with-ft", "ulfm"}));
  EXPECT_EQ(watched.size(), plain.size() + 12);
  EXPECT_NE(std::find(watched.begin(), watched.end(), "mpi_ft_detector_thread"), watched.end());
}

TEST(Agreed, PassesErrorsOnAsAgreed) {
  const Communicator solo;
  agreed(solo, [] {});
  try {
    agreed(solo, [] { fail(ErrorCode::not_found, "no {}", 7); });
    FAIL() << "nothing was thrown";
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_STREQ(error.what(), "no 7");
  }
}

TEST(Agreed, LetsForeignExceptionsPass) {
  EXPECT_THROW(agreed(Communicator(), [] { throw std::out_of_range("mine"); }), std::out_of_range);
}

TEST(Launcher, IsSeenByItsVariables) {
  ASSERT_FALSE(started_by_launcher());
  ::setenv("SLURM_PROCID", "0", 1);
  EXPECT_FALSE(started_by_launcher()) << "a batch script has SLURM_PROCID too";
  ::setenv("PMIX_RANK", "3", 1);
  EXPECT_TRUE(started_by_launcher());
  EXPECT_EQ(launched_rank(), 3);
  ::unsetenv("PMIX_RANK");
  ::unsetenv("SLURM_PROCID");
  ::setenv("OMPI_COMM_WORLD_SIZE", "5", 1);
  EXPECT_EQ(launched_ranks(), 5);
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(launched_ranks(), 0);
}

}  // namespace
}  // namespace bitrift::mpi::solo_test
