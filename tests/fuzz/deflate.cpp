// Patches a deflate stream of any form: what is accepted must inflate to the altered content, by zlib.
#include <fuzzer/FuzzedDataProvider.h>

#include "deflate_cases.h"
#include "fuzz/harness.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bitrift;
  using namespace bitrift::fuzz;
  constexpr std::size_t most = 1 << 18;
  FuzzedDataProvider input(data, size);  // takes numbers from the end
  std::vector<std::pair<std::uint64_t, std::uint8_t>> changes(
      input.ConsumeIntegralInRange<std::size_t>(1, 8));
  for (auto& [at, difference] : changes) {
    at = input.ConsumeIntegral<std::uint32_t>();
    difference = input.ConsumeIntegralInRange<std::uint8_t>(1, 255);
  }
  testing::DeflateCase one;
  one.stream = input.ConsumeRemainingBytes<std::uint8_t>();
  const auto content = testing::zlib_inflate(one.stream, most);
  const bool sound = content && !content->empty() && content->size() <= most;
  // What zlib does not take may be patched to anything, but must not harm.
  one.before = sound ? *content : Bytes(1 + size, 7);
  one.after = one.before;
  for (const auto& [at, difference] : changes) one.after[at % one.after.size()] ^= difference;
  if (!sound) {
    static_cast<void>(deflate::patch_stream(one.stream, one.before, one.after));
    return 0;
  }
  expect(testing::outcome_of(one).has_value(), "a patched stream does not hold the altered content");
  expect(deflate::patch_stream(one.stream, one.before, one.before) == one.stream,
         "no change alters the stream");
  return 0;
}
