#include "campaign/folder/numeric_environment.h"

#include <cstdlib>

#include <gmock/gmock.h>

namespace bitrift::campaign::numeric_environment_test {
namespace {

using record::Json;
using ::testing::HasSubstr;

TEST(NumericEnvironmentTest, EveryVariableThatDiffersIsNamedWithBothValues) {
  const Json before = {{"OMP_NUM_THREADS", "2"}, {"MKL_CBWR", "AVX2"}};
  const Json now = {{"OMP_NUM_THREADS", "4"}, {"MKL_NUM_THREADS", "1"}, {"MKL_CBWR", "AVX2"}};
  EXPECT_EQ(environment_change(before, now),
            "OMP_NUM_THREADS was 2, is now 4, MKL_NUM_THREADS was unset, is now 1");
  EXPECT_EQ(environment_change(before, before), "");
}

TEST(NumericEnvironmentTest, AHintIsGivenWhereTheFirstStartIsKnownAndWasAnother) {
  setenv("OMP_NUM_THREADS", "3", 1);
  EXPECT_EQ(numeric_environment().at("OMP_NUM_THREADS"), "3");
  EXPECT_EQ(environment_hint(numeric_environment()), "");
  EXPECT_EQ(environment_hint(Json()), "");  // a campaign of an earlier version
  Json before = numeric_environment();
  before.erase("OMP_NUM_THREADS");
  EXPECT_THAT(environment_hint(before), HasSubstr("OMP_NUM_THREADS was unset, is now 3"));
  unsetenv("OMP_NUM_THREADS");
}

}  // namespace
}  // namespace bitrift::campaign::numeric_environment_test
