// Compares a file with its seal, and restores it. The last bytes of the input choose between two games: a
// seal that was made up, and a sound one, after which file and seal are damaged. Whatever is said to be sound
// has the bytes that were sealed, and whatever is restored, too.
#include <algorithm>
#include <cstring>

#include <fuzzer/FuzzedDataProvider.h>
#include <spdlog/spdlog.h>

#include "core/digest.h"
#include "fuzz/harness.h"
#include "integrity/seal/make_seal.h"
#include "integrity/seal/seal_check.h"

namespace bitrift::fuzz {
namespace {

using integrity::seal_block_bytes;

const ScratchFile& file() {
  static const ScratchFile made("sealed");
  return made;
}

const ScratchFile& seal() {
  static const ScratchFile made("sealed.seal");
  return made;
}

void put_number(Bytes& bytes, std::uint64_t at, std::uint64_t number) {
  if (at <= bytes.size() && sizeof number <= bytes.size() - at)
    std::memcpy(bytes.data() + at, &number, sizeof number);
}

/// Digests that fit, or nothing else would be believed: of the text, and of each block after the head, as if
/// it were a page of the first table.
void put_digests(Bytes& bytes) {
  std::uint64_t text = 0;
  if (bytes.size() < 24) return;
  std::memcpy(&text, bytes.data() + 8, sizeof text);
  if (text > bytes.size() - 24) return;
  put_number(bytes, 16, block_digest(bytes.data() + 24, text, 0));
  const std::uint64_t head = (24 + text + seal_block_bytes - 1) / seal_block_bytes;
  for (std::uint64_t page = 0; (head + page + 1) * seal_block_bytes <= bytes.size(); ++page) {
    const std::uint64_t at = (head + page) * seal_block_bytes;
    const std::uint64_t own = at + seal_block_bytes - 8;
    put_number(bytes, own, block_digest(bytes.data() + at, seal_block_bytes - 8, page));
  }
}

/// What a seal restores has the digests that the seal states.
void read_made_up(const Bytes& held, Bytes made) {
  put_digests(made);
  file().write(held);
  seal().write(made);
  std::optional<integrity::SealCheck> check;
  if (!answered([&] { check = integrity::check_seal(file().path()); })) return;
  expect(check.has_value(), "a seal is not seen");
  if (!check->repairable()) return;
  (void)answered([&] {
    integrity::rebuild_blocks(*check, [&](const std::uint8_t*, std::uint64_t bytes, std::uint64_t offset) {
      expect(offset + bytes <= check->head.shape.bytes, "a restored block is beyond the end");
    });
  });
}

Bytes restored(const integrity::SealCheck& check, Bytes bytes) {
  bytes.resize(check.head.shape.bytes);
  must(
      [&] {
        integrity::rebuild_blocks(
            check, [&](const std::uint8_t* data, std::uint64_t count, std::uint64_t offset) {
              std::copy_n(data, count, bytes.begin() + static_cast<std::ptrdiff_t>(offset));
            });
      },
      "what is repairable cannot be repaired");
  return bytes;
}

void damage(Bytes& bytes, FuzzedDataProvider& input) {
  for (int i = input.ConsumeIntegralInRange(0, 4); i > 0 && !bytes.empty(); --i) {
    const auto first = input.ConsumeIntegralInRange<std::size_t>(0, bytes.size() - 1);
    const auto count = std::min(input.ConsumeIntegralInRange<std::size_t>(1, 9000), bytes.size() - first);
    const auto mask = input.ConsumeIntegral<std::uint8_t>();
    for (std::size_t k = first; k < first + count; ++k) bytes[k] ^= mask;
  }
  if (input.ConsumeProbability<float>() < 0.2F)
    bytes.resize(input.ConsumeIntegralInRange<std::size_t>(0, 80'000));
}

void damage_and_restore(FuzzedDataProvider& input) {
  integrity::SealOptions options;
  options.percent = input.ConsumeFloatingPointInRange(integrity::least_percent, 100.0);
  Bytes original(input.ConsumeIntegralInRange<std::size_t>(1, 70'000));
  const auto factor = input.ConsumeIntegral<std::uint8_t>();
  for (std::size_t i = 0; i < original.size(); ++i)
    original[i] = static_cast<std::uint8_t>(factor * i + i / 256);
  file().write(original);
  must([&] { (void)make_seal(file().path(), options); }, "a file cannot be sealed");
  Bytes hurt = original, kept = seal().read();
  damage(hurt, input);
  damage(kept, input);
  file().write(hurt);
  seal().write(kept);
  std::optional<integrity::SealCheck> check;
  if (!answered([&] { check = integrity::check_seal(file().path()); })) return;
  expect(check.has_value(), "a seal is not seen");
  if (!check->unusable.empty()) return;
  expect(check->sound() == (hurt == original), "the seal is wrong about the file");
  if (check->repairable()) expect(restored(*check, hurt) == original, "another file was restored");
}

}  // namespace
}  // namespace bitrift::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bitrift::fuzz;
  spdlog::set_level(spdlog::level::off);
  FuzzedDataProvider input(data, size);  // takes numbers from the end
  if (input.ConsumeBool()) {
    damage_and_restore(input);
  } else {
    Bytes held(input.ConsumeIntegralInRange<std::size_t>(0, 30'000), input.ConsumeIntegral<std::uint8_t>());
    read_made_up(held, input.ConsumeRemainingBytes<std::uint8_t>());
  }
  seal().remove();
  return 0;
}
