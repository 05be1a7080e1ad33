#include "record/outcome.h"

namespace bitrift::record {

const char* outcome_class_name(OutcomeClass value) noexcept {
  switch (value) {
    case OutcomeClass::masked:
      return "masked";
    case OutcomeClass::sdc:
      return "SDC";
    case OutcomeClass::crash:
      return "crash";
  }
  return "crash";
}

const char* reason_name(Reason reason) noexcept {
  switch (reason) {
    case Reason::bitwise:
      return "bitwise";
    case Reason::reconverged:
      return "reconverged";
    case Reason::within_noise:
      return "within_noise";
    case Reason::sharp_degrade:
      return "sharp_degrade";
    case Reason::slow_degrade:
      return "slow_degrade";
    case Reason::low_test_accuracy:
      return "low_test_accuracy";
    case Reason::high_test_loss:
      return "high_test_loss";
    case Reason::training_only:
      return "training_only";
    case Reason::degraded:
      return "degraded";
    case Reason::rejected:
      return "rejected";
    case Reason::exception:
      return "exception";
    case Reason::signal:
      return "signal";
    case Reason::hang:
      return "hang";
    case Reason::nonfinite:
      return "nonfinite";
  }
  return "exception";
}

const char* course_name(Course course) noexcept {
  switch (course) {
    case Course::none:
      return "";
    case Course::sharp:
      return "sharp";
    case Course::slow:
      return "slow";
    case Course::relapsed:
      return "relapsed";
  }
  return "";
}

OutcomeClass class_of(Reason reason) noexcept {
  switch (reason) {
    case Reason::bitwise:
    case Reason::reconverged:
    case Reason::within_noise:
      return OutcomeClass::masked;
    case Reason::sharp_degrade:
    case Reason::slow_degrade:
    case Reason::low_test_accuracy:
    case Reason::high_test_loss:
    case Reason::training_only:
    case Reason::degraded:
      return OutcomeClass::sdc;
    case Reason::rejected:
    case Reason::exception:
    case Reason::signal:
    case Reason::hang:
    case Reason::nonfinite:
      return OutcomeClass::crash;
  }
  return OutcomeClass::crash;
}

}  // namespace bitrift::record
