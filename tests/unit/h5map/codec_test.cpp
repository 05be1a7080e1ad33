#include "h5map/filter/codec.h"

#include <random>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "h5map/filter/lzf.h"
#include "unit/h5map/chunk_files.h"

namespace bitrift::h5map::codec_test {
namespace {

using testing::bytes_of;
using testing::chunk_file_script;
using testing::ChunkFile;
using testing::python;
using testing::read_chunk_file;
using testing::Scratch;
using testing::write_bytes;
using Bytes = std::vector<std::uint8_t>;

Bytes noise(std::size_t count, unsigned different, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random() % different);
  return bytes;
}

const std::string filter_files = chunk_file_script + R"(
combinations = [dict(compression='gzip', compression_opts=l) for l in (0, 1, 6, 9)]
combinations += [dict(compression='lzf'), dict(fletcher32=True), dict(shuffle=True)]
combinations += [dict(compression=c, shuffle=s, fletcher32=True) for c in ('gzip', 'lzf') for s in (False, True)]
combinations += [dict(compression=c, shuffle=True) for c in ('gzip', 'lzf')]
names = []
for dtype in ('<f4', '>f8', 'i1', '<i2', '>u4'):
    for filters in combinations:
        names.append('%s-%d' % (dtype[1:], len(names)))
        make(names[-1], 'fixed_array', (12, 30), (4, 15), dtype=dtype, **filters)
        # Values with long runs, and some that LZF cannot pack, so that h5py leaves it out of the chunk.
        with h5py.File(os.path.join(path, names[-1] + '.h5'), 'r+') as f:
            f['d'][:4] = 0
            f['d'][4:8, :15] = np.frombuffer(np.random.default_rng(5).bytes(480), f['d'].dtype.str)[:60].reshape(4, 15)
            values = b''.join(f['d'][i:i + 4, j:j + 15].tobytes() for i in (0, 4, 8) for j in (0, 15))
        describe(names[-1], 'fixed_array', dtype)
        open(os.path.join(path, names[-1] + '.values'), 'wb').write(values)
open(os.path.join(path, 'names'), 'w').write(' '.join(names))
)";

TEST(Codec, DecodesWhatH5pyWroteAndH5pyReadsWhatItEncoded) {
  const Scratch scratch;
  const auto folder = scratch / "files";
  ASSERT_TRUE(python(folder, filter_files));
  std::istringstream names(bytes_of(folder / "names"));
  std::size_t left_out = 0;
  for (std::string name; names >> name;) {
    SCOPED_TRACE(name);
    const ChunkFile file = read_chunk_file(folder, name);
    const Source source(file.path);
    const ChunkTable table = file.open(source);
    const auto& filters = file.layout.filters;
    std::string decoded;
    std::string encoded;
    for (const Chunk& chunk : table.all()) {
      ASSERT_TRUE(codec_knows(filters, chunk.mask));
      const Bytes stored = source.read(chunk.offset, chunk.bytes, "chunk");
      const Bytes values = decode_chunk(filters, chunk.mask, stored, table.grid().chunk_bytes(), "d");
      decoded.append(values.begin(), values.end());
      Bytes others = values;
      std::reverse(others.begin(), others.end());
      const Bytes again = encode_chunk(filters, chunk.mask, others, ~0ULL, "d");
      EXPECT_EQ(decode_chunk(filters, chunk.mask, again, values.size(), "d"), others);
      Bytes flipped = values;
      flipped[values.size() / 2] ^= 16;
      const ValueChange flip = [](std::span<std::uint8_t> one) { one[one.size() / 2] ^= 16; };
      const Bytes recoded = recode_chunk(filters, chunk.mask, stored, values.size(), flip, "d");
      EXPECT_EQ(decode_chunk(filters, chunk.mask, recoded, values.size(), "d"), flipped);
      encoded += std::to_string(again.size()) + " " + std::to_string(chunk.mask) + "\n";
      encoded.append(again.begin(), again.end());
      left_out += chunk.mask != 0 ? 1 : 0;
    }
    EXPECT_EQ(decoded, bytes_of(folder / (name + ".values")));
    write_bytes(folder / (name + ".encoded"), encoded);
  }
  EXPECT_GT(left_out, 5U);
  EXPECT_TRUE(python(folder, R"(
import os
names = open(os.path.join(path, 'names')).read().split()
assert len(names) > 50
for name in names:
    encoded = open(os.path.join(path, name + '.encoded'), 'rb')
    values = open(os.path.join(path, name + '.values'), 'rb').read()
    size = len(values) // 6
    with h5py.File(os.path.join(path, name + '.h5'), 'r+') as f:
        d = f['d']
        for n, (i, j) in enumerate((i, j) for i in (0, 4, 8) for j in (0, 15)):
            stored, mask = map(int, encoded.readline().split())
            d.id.write_direct_chunk((i, j), encoded.read(stored), mask)
        d.id.flush()
    with h5py.File(os.path.join(path, name + '.h5')) as f:
        for n, (i, j) in enumerate((i, j) for i in (0, 4, 8) for j in (0, 15)):
            assert f['d'][i:i + 4, j:j + 15].tobytes() == values[n * size:n * size + size][::-1], name
)"));
}

TEST(Codec, LzfGivesBackEveryKindOfBytes) {
  for (const unsigned different : {1U, 2U, 4U, 256U}) {
    for (const std::size_t count : {0U, 1U, 2U, 3U, 31U, 32U, 33U, 264U, 265U, 9000U, 100'000U}) {
      const Bytes bytes = noise(count, different, 7);
      const Bytes packed = lzf_pack(bytes);
      EXPECT_LE(packed.size(), count + count / 32 + 1);
      EXPECT_EQ(lzf_unpack(packed, count), bytes) << different << " " << count;
      if (count > 0) {
        EXPECT_ERROR((void)lzf_unpack(packed, count - 1), bad_file, "more than");
      }
      if (different == 1 && count > 200) {
        EXPECT_LT(packed.size(), count / 40);
      }
    }
  }
  // The same block once more, just near enough and just too far for a copy.
  for (const std::size_t gap : {8192U - 300U, 8193U - 300U, 20000U}) {
    Bytes bytes = noise(300, 256, 1);
    const Bytes between = noise(gap, 256, 2);
    const Bytes block = bytes;
    bytes.insert(bytes.end(), between.begin(), between.end());
    bytes.insert(bytes.end(), block.begin(), block.end());
    EXPECT_EQ(lzf_unpack(lzf_pack(bytes), bytes.size()), bytes);
  }
}

TEST(Codec, DamagedLzfIsRefused) {
  EXPECT_ERROR((void)lzf_unpack(Bytes{5, 1, 2}, 100), bad_file, "ends too early");
  EXPECT_ERROR((void)lzf_unpack(Bytes{0xe0}, 100), bad_file, "ends too early");
  EXPECT_ERROR((void)lzf_unpack(Bytes{0, 7, 0x20, 1}, 100), bad_file, "before its start");
  EXPECT_EQ(lzf_unpack(Bytes{0, 7, 0x20, 0}, 100), (Bytes{7, 7, 7, 7}));
}

TEST(Codec, DamagedOrLyingChunksAreRefusedByName) {
  const std::vector<Filter> gzip = {{filter_deflate, true, "", {6}}};
  const Bytes values = noise(4000, 5, 3);
  const Bytes stored = encode_chunk(gzip, 0, values, ~0ULL, "f.h5: d");
  EXPECT_EQ(decode_chunk(gzip, 0, stored, 4000, "f.h5: d"), values);
  EXPECT_ERROR((void)decode_chunk(gzip, 0, stored, 3999, "f.h5: d"), bad_file,
               "f.h5: d: deflated data gives more");
  EXPECT_ERROR((void)decode_chunk(gzip, 0, stored, 4001, "f.h5: d"), bad_file, "f.h5: d: holds 4000 bytes");
  const Bytes cut(stored.begin(), stored.end() - 9);
  EXPECT_ERROR((void)decode_chunk(gzip, 0, cut, 4000, "f.h5: d"), bad_file, "ends too early");
  EXPECT_ERROR((void)decode_chunk(gzip, 0, {}, 4000, "f.h5: d"), bad_file, "ends too early");
  Bytes altered = stored;
  altered[stored.size() / 2] ^= 4;
  EXPECT_ERROR((void)decode_chunk(gzip, 0, altered, 4000, "f.h5: d"), bad_file, "f.h5: d: ");
  const std::vector<Filter> checked = {{filter_fletcher32, false, "", {}}};
  Bytes summed = encode_chunk(checked, 0, values, ~0ULL, "d");
  EXPECT_EQ(summed.size(), 4004U);
  summed[17] ^= 1;
  EXPECT_ERROR((void)decode_chunk(checked, 0, summed, 4000, "d"), bad_file, "fletcher32 sum is");
  EXPECT_ERROR((void)decode_chunk(checked, 0, Bytes{1, 2}, 4000, "d"), bad_file, "too short");
  const std::vector<Filter> empty = {{filter_shuffle, false, "", {}}};
  EXPECT_ERROR((void)decode_chunk(empty, 0, values, 4000, "d"), bad_file, "no element size");
  const std::vector<Filter> zstd = {{32015, false, "zstd", {}}};
  EXPECT_FALSE(codec_knows(zstd, 0));
  EXPECT_TRUE(codec_knows(zstd, 1));
  EXPECT_ERROR((void)decode_chunk(zstd, 0, values, 4000, "d"), unsupported, "32015");
  EXPECT_EQ(decode_chunk(zstd, 1, values, 4000, "d"), values);
}

TEST(Codec, ABombHoldsNoMoreThanTheChunk) {
  const std::vector<Filter> gzip = {{filter_deflate, true, "", {9}}};
  const Bytes bomb = encode_chunk(gzip, 0, Bytes(100'000'000), ~0ULL, "bomb");
  EXPECT_LT(bomb.size(), 200'000U);
  EXPECT_ERROR((void)decode_chunk(gzip, 0, bomb, 1000, "bomb"), bad_file, "more than 1000 bytes");
}

TEST(Codec, AClaimThatNoStoredBytesCanKeepIsRefusedBeforeMemoryIsTaken) {
  const std::vector<Filter> gzip = {{filter_shuffle, true, "", {4}}, {filter_deflate, true, "", {9}}};
  const std::vector<Filter> lzf = {{filter_lzf, true, "", {}}};
  for (const auto& filters : {gzip, lzf}) {
    // The densest that there is passes, whatever its size.
    const Bytes zeros = encode_chunk(filters, 0, Bytes(1 << 24), ~0ULL, "d");
    check_claim(filters, 0, zeros.size(), 1 << 24, "d");
  }
  EXPECT_ERROR(
      check_claim(gzip, 0, 1000, std::uint64_t{1} << 40, "f.h5: d: chunk 3"), bad_file,
      "f.h5: d: chunk 3: claims 1099511627776 bytes of values, and its 1000 stored ones hold 1032000");
  EXPECT_ERROR(check_claim(lzf, 0, 1000, 88001, "d"), bad_file, "88000 at most");
  EXPECT_ERROR(check_claim(gzip, 2, 1000, 1001, "d"), bad_file, "1000 at most");
  const std::vector<Filter> twice = {{filter_deflate, true, "", {9}}, {filter_deflate, true, "", {9}}};
  check_claim(twice, 0, 1000, std::uint64_t{1} << 29, "d");
  check_claim(twice, 0, std::uint64_t{1} << 60, std::uint64_t{1} << 62, "d");
}

TEST(Codec, ThreadsDoNotDisturbEachOther) {
  const std::vector<Filter> filters = {
      {filter_shuffle, true, "", {8}}, {filter_deflate, true, "", {1}}, {filter_fletcher32, false, "", {}}};
  std::vector<std::thread> threads;
  std::vector<int> good(4);
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 50; ++i) {
        const Bytes values = noise(8003, 20, t * 100 + i);
        good[t] += decode_chunk(filters, 0, encode_chunk(filters, 0, values, ~0ULL, "d"), 8003, "d") == values
                       ? 1
                       : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(good, ::testing::Each(50));
}

}  // namespace
}  // namespace bitrift::h5map::codec_test
