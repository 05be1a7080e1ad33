#include "record/fault/process_fault.h"

#include <limits>
#include <string>

#include <gmock/gmock.h>

#include "core/error.h"

namespace bitrift::record::process_fault_test {
namespace {

using ::testing::HasSubstr;

TEST(ProcessFault, OfATextHasEveryPartOfIt) {
  EXPECT_EQ(process_fault_from_text("2@5:backward.1=stop"),
            (ProcessFault{2, 5, TrainingPhase::backward, 1, FailureMode::stop}));
  EXPECT_EQ(process_fault_from_text("0@1:update"),
            (ProcessFault{0, 1, TrainingPhase::update, 0, FailureMode::kill}));
  EXPECT_EQ(process_fault_from_text("3@7:reduce=exit"),
            (ProcessFault{3, 7, TrainingPhase::reduce, 0, FailureMode::exit}));
  EXPECT_EQ(process_fault_from_text("3@7:reduce=slow:1.5:20"),
            (ProcessFault{3, 7, TrainingPhase::reduce, 0, FailureMode::slow, Slowness{1.5, 20}}));
  EXPECT_EQ(process_fault_from_text("3@7:recovery.3"),
            (ProcessFault{3, 7, TrainingPhase::recovery, 3, FailureMode::kill}));
}

TEST(ProcessFault, SurvivesTextAndJsonInEveryPhaseAndManner) {
  constexpr auto last = std::numeric_limits<std::int64_t>::max();
  for (std::size_t phase = 0; phase < names_of(TrainingPhase{}).words.size(); ++phase) {
    for (std::size_t how = 0; how < names_of(FailureMode{}).words.size(); ++how) {
      for (const std::int64_t number : {std::int64_t{1}, last}) {
        ProcessFault fault = {std::numeric_limits<int>::max(), number, static_cast<TrainingPhase>(phase),
                              number - 1, static_cast<FailureMode>(how)};
        if (fault.how == FailureMode::slow) fault.slowness = Slowness{1 + 1e-9, number};
        EXPECT_EQ(process_fault_from_text(to_text(fault)), fault) << to_text(fault);
        EXPECT_EQ(Json::parse(to_json(fault).dump()).get<ProcessFault>(), fault);
      }
    }
  }
  EXPECT_EQ(to_text({2, 5, TrainingPhase::backward, 1, FailureMode::stop}), "2@5:backward.1=stop");
}

TEST(ProcessFault, MayComeBeforeTheFirstStepOnlyBetweenSteps) {
  EXPECT_EQ(process_fault_from_text("1@0:save").step, 0);
  EXPECT_EQ(process_fault_from_text("1@0:evaluate.2").step, 0);
  EXPECT_THROW((void)process_fault_from_text("1@0:forward"), Error);
  EXPECT_THROW((void)process_fault_from_text("1@0:recovery"), Error);
}

// The text, and what the message says of it.
class HostileText : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

TEST_P(HostileText, IsRefusedWithWhatWasExpected) {
  const auto& [text, says] = GetParam();
  try {
    (void)process_fault_from_text(text);
    FAIL() << "accepted: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    EXPECT_THAT(error.what(), HasSubstr(says));
    EXPECT_THAT(error.what(), HasSubstr("expected RANK@STEP:PHASE[.POINT][=HOW]"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, HostileText,
    ::testing::Values(
        std::pair("", "'' is not a valid phase of training"),
        std::pair("2", "'' is not a valid phase of training"),
        std::pair("2@5", "'' is not a valid phase of training"),
        std::pair("2@5:", "'' is not a valid phase of training"),
        std::pair("2:forward", "'' is not a valid step"), std::pair("@5:forward", "'' is not a valid rank"),
        std::pair("2@:forward", "'' is not a valid step"),
        std::pair("2@5:forward.", "'' is not a valid point"),
        std::pair("2@5:forward=", "'' is not a valid way to fail (kill, stop, exit, slow)"),
        std::pair("2@5:forward.1=die", "'die' is not a valid way to fail"),
        std::pair("2@5:forward=slow", "'' is not a valid factor (more than 1, at most 1e+06)"),
        std::pair("2@5:forward=slow:1:3", "'1' is not a valid factor"),
        std::pair("2@5:forward=slow:nan:3", "'nan' is not a valid factor"),
        std::pair("2@5:forward=slow:inf:3", "'inf' is not a valid factor"),
        std::pair("2@5:forward=slow:1e7:3", "'1e7' is not a valid factor"),
        std::pair("2@5:forward=slow:2x:3", "'2x' is not a valid factor"),
        std::pair("2@5:forward=slow:2", "'' is not a valid number of steps"),
        std::pair("2@5:forward=slow:2:0", "'0' is not a valid number of steps (they begin at 1)"),
        std::pair("2@5:forward=slow:2:3:4", "'3:4' is not a valid number of steps"),
        std::pair("2@5:forward=kill:2:3", "'kill': only slow takes more words"),
        std::pair("2@5:forward=kill:", "'kill': only slow takes more words"),
        std::pair("2@5:Forward", "'Forward' is not a valid phase of training"),
        std::pair("2@5:sleep",
                  "(forward, backward, reduce, update, save, evaluate, recovery, finish, leave)"),
        std::pair("-1@5:forward", "'-1' is not a valid rank"),
        std::pair("2@-5:forward", "'-5' is not a valid step"),
        std::pair("2@5:forward.-1", "'-1' is not a valid point"),
        std::pair("+2@5:forward", "'+2' is not a valid rank"),
        std::pair(" 2@5:forward", "' 2' is not a valid rank"),
        std::pair("2@5:forward ", "is not a valid phase"),
        std::pair("2@1e3:forward", "'1e3' is not a valid step"),
        std::pair("2@5.5:forward", "'5.5' is not a valid step"),
        std::pair("0x2@5:forward", "'0x2' is not a valid rank"),
        std::pair("2147483648@5:forward", "'2147483648' is not a valid rank"),
        std::pair("2@9223372036854775808:forward", "is not a valid step"),
        std::pair("2@5:forward.1.2", "'1.2' is not a valid point"),
        std::pair("2@5:forward=kill=stop", "'kill=stop' is not a valid way to fail"),
        std::pair("2@5@6:forward", "'5@6' is not a valid step"),
        std::pair("2@5:forward:1", "'forward:1' is not a valid phase"),
        std::pair("forward=2@5", "'' is not a valid phase"),
        std::pair("2@5:forward\n", "is not a valid phase"),
        std::pair("2@5:forward\t", "is not a valid phase"),
        std::pair(std::string(100000, '9') + "@5:forward", "is not a valid rank")));

TEST(ProcessFault, OfJsonWithoutAKeyOrWithAnUnknownWordIsRefused) {
  for (const char* key : {"rank", "step", "phase", "point", "how"}) {
    Json value = to_json(ProcessFault{});
    value.erase(key);
    EXPECT_ANY_THROW((void)value.get<ProcessFault>()) << key;
  }
  for (const char* key : {"phase", "how"}) {
    Json value = to_json(ProcessFault{});
    value[key] = "sleep";
    EXPECT_THROW((void)value.get<ProcessFault>(), Error) << key;
  }
}

}  // namespace
}  // namespace bitrift::record::process_fault_test
