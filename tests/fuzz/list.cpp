// Opens a file of any format and asks for all that can be asked.
#include "fuzz/reading.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bitrift::fuzz;
  static const ScratchFile file("listed.h5");
  file.write({data, size});
  answered([] { look_at_everything(file.path()); });
  return 0;
}
