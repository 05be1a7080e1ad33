#include "record/fault/fault_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace bitrift::record::fault_list_test {
namespace {

AppliedFault fault(const std::string& tensor, std::uint64_t element, std::vector<unsigned> bits) {
  AppliedFault made{tensor, "weight", element, "float32", std::move(bits), "", 0x3f800000, 0};
  std::uint64_t mask = 0;
  for (const unsigned bit : made.bits) mask |= std::uint64_t{1} << bit;
  made.field = common_field(number_format("float32").value(), mask);
  made.new_pattern = made.old_pattern ^ mask;
  return made;
}

TEST(FaultList, ExpandsToTheFaultsThatWereAppendedInTheirOrder) {
  const std::vector<AppliedFault> faults = {fault("model/a", 3, {31}), fault("model/a", 1, {0, 23}),
                                            fault("model/b", 0, {30}), fault("model/a", 2, {1})};
  const FaultList list = compact(faults);
  EXPECT_EQ(list.sites.size(), 3U);
  EXPECT_EQ(list.expanded(), faults);
  EXPECT_EQ(list.at(1).field, "mixed");
  EXPECT_THAT([&] { static_cast<void>(list.at(4)); }, ::testing::Throws<std::out_of_range>());
}

TEST(FaultList, DropsTheSitesWithoutFaultsAndKeepsTheFaults) {
  FaultList list = compact({fault("model/a", 0, {1}), fault("model/b", 0, {1}), fault("model/c", 0, {1})});
  const AppliedFault last = list.at(2);
  list.changes.erase(list.changes.begin(), list.changes.begin() + 2);
  list.drop_unused_sites();
  ASSERT_EQ(list.sites.size(), 1U);
  EXPECT_EQ(list.expanded(), std::vector{last});
  list.changes.clear();
  list.drop_unused_sites();
  EXPECT_EQ(list, FaultList());
}

TEST(FaultList, KeepsAFaultInAFormatThatIsNotKnown) {
  AppliedFault foreign = fault("model/a", 7, {2});
  foreign.dtype = "float6";
  foreign.field.clear();
  EXPECT_EQ(compact({foreign}).at(0), foreign);
}

TEST(AppliedFault, OfABitBeyondAllFormatsIsRefused) {
  Json value = to_json(fault("model/a", 0, {1}));
  value["bits"] = {1, 64};
  EXPECT_THAT([&] { static_cast<void>(applied_fault_from_json(value)); },
              ::testing::ThrowsMessage<Error>("float32 has no bit 64"));
}

}  // namespace
}  // namespace bitrift::record::fault_list_test
