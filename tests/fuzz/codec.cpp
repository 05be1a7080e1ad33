// Decodes a stored chunk under filters that the last bytes of the input name; what decodes is encoded and
// decoded again.
#include "h5map/filter/codec.h"

#include <fuzzer/FuzzedDataProvider.h>

#include "fuzz/harness.h"

namespace bitrift::fuzz {
namespace {

/// `room`: what the stored form should fit into, or else deflate tries harder.
void round_trip(const std::vector<h5map::Filter>& filters, std::uint32_t mask, const Bytes& values,
                std::uint64_t room) {
  Bytes again;
  must(
      [&] {
        const Bytes stored = h5map::encode_chunk(filters, mask, values, room, "chunk");
        again = h5map::decode_chunk(filters, mask, stored, values.size(), "chunk");
      },
      "values cannot be encoded and decoded");
  expect(again == values, "values come back changed");
}

}  // namespace
}  // namespace bitrift::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bitrift;
  using namespace bitrift::fuzz;
  FuzzedDataProvider input(data, size);  // takes numbers from the end
  constexpr unsigned kinds[] = {h5map::filter_deflate, h5map::filter_shuffle, h5map::filter_fletcher32,
                                h5map::filter_lzf};
  std::vector<h5map::Filter> filters(input.ConsumeIntegralInRange<std::size_t>(1, 4));
  for (h5map::Filter& filter : filters) {
    filter.id = input.PickValueInArray(kinds);
    filter.values = {input.ConsumeIntegralInRange<std::uint32_t>(0, 9)};
  }
  const auto mask = input.ConsumeIntegralInRange<std::uint32_t>(0, 15);
  const auto chunk_bytes = input.ConsumeIntegralInRange<std::uint64_t>(1, 1 << 16);
  const Bytes stored = input.ConsumeRemainingBytes<std::uint8_t>();
  answered([&] {
    round_trip(filters, mask, h5map::decode_chunk(filters, mask, stored, chunk_bytes, "chunk"),
               stored.size());
  });
  round_trip(filters, mask, stored, chunk_bytes);
  return 0;
}
