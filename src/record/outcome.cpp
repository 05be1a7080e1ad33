#include "record/outcome.h"

namespace bitrift::record {

OutcomeClass class_of(Reason reason) noexcept {
  switch (reason) {
    case Reason::bitwise:
    case Reason::reconverged:
    case Reason::within_noise:
      return OutcomeClass::masked;
    case Reason::low_test_accuracy:
    case Reason::high_test_loss:
    case Reason::training_only:
    case Reason::worse_metric:
      return OutcomeClass::sdc;
    case Reason::rejected:
    case Reason::exception:
    case Reason::signal:
    case Reason::hang:
    case Reason::nonfinite:
    case Reason::unrecovered:
      return OutcomeClass::crash;
  }
  return OutcomeClass::crash;
}

}  // namespace bitrift::record
