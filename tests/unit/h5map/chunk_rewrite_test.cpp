#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "h5map/chunk/rewrite.h"
#include "h5map/filter/codec.h"
#include "h5map/h5_file.h"
#include "unit/h5map/chunk_files.h"

namespace bitrift::h5map::chunk_rewrite_test {
namespace {

using testing::bytes_of;
using testing::chunk_file_script;
using testing::ChunkFile;
using testing::python;
using testing::read_chunk_file;
using testing::Scratch;
using testing::write_bytes;
using Bytes = std::vector<std::uint8_t>;

std::string applied(std::string bytes, const NewBytes& changes) {
  std::uint64_t last = 0;
  for (const auto& [offset, written] : changes) {
    EXPECT_GE(offset, last);
    last = offset + written.size();
    if (last > bytes.size()) bytes.resize(last);
    std::copy(written.begin(), written.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  return bytes;
}

Bytes noise(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

// Every third chunk becomes noise (larger), every third zeros (smaller), the rest stays.
std::string rewritten(const std::filesystem::path& path, std::string& written) {
  const std::string bytes = bytes_of(path);
  const File file(path);
  const Dataset& dataset = file.datasets().at(0);
  EXPECT_EQ(dataset.problem, "");
  const Source& source = file.source();
  const ChunkTable table(source, file.frame(), dataset.layout, dataset.space.shape, dataset.space.max_shape,
                         dataset.type->bytes, "d");
  Rewrite rewrite(source, file.superblock());
  for (const Chunk& chunk : table.all()) {
    if (chunk.cell % 3 == 1) continue;
    Bytes values(table.grid().chunk_bytes());
    if (chunk.cell % 3 == 0) values = noise(values.size(), static_cast<unsigned>(chunk.cell));
    Bytes stored =
        chunk.filtered ? encode_chunk(dataset.layout.filters, chunk.mask, values, ~0ULL, "d") : values;
    rewrite.put_chunk(table, chunk, stored, chunk.mask);
    written += std::to_string(chunk.cell) + " " + std::to_string(values.size()) + "\n";
    written.append(values.begin(), values.end());
  }
  const std::string result = applied(bytes, rewrite.finish());
  EXPECT_EQ(rewrite.file_bytes(), result.size());
  return result;
}

TEST(Rewrite, H5pyAndH5dumpReadTheNewChunksAndAllOthersAsBefore) {
  const Scratch scratch;
  const auto folder = scratch / "files";
  ASSERT_TRUE(python(folder, chunk_file_script + R"(
gz = dict(compression='gzip', compression_opts=6, shuffle=True, fletcher32=True)
make('old', 'btree1', (100, 70), (16, 16), libver='earliest', **gz)
make('oldblock', 'btree1', (100, 70), (16, 16), libver='earliest', base=512, **gz)
for block, base in (('', 0), ('block', 1024)):
    make('fixed' + block, 'fixed_array', (100, 70), (16, 16), libver='v110', base=base, **gz)
    make('grow' + block, 'extensible_array', (900,), (9,), maxshape=(None,), libver='v110', base=base, **gz)
    make('tree' + block, 'btree2', (200, 200), (16, 16), maxshape=(None, None), libver='v110', base=base, **gz)
    make('one' + block, 'single', (30, 30), (30, 30), libver='v110', base=base, **gz)
make('paged', 'fixed_array', (1500, 40), (1, 40), libver='v110', dtype='i2', **gz)
make('edge', 'fixed_array', (100, 70), (16, 16), partial=True, libver='v110', **gz)
make('plain', 'fixed_array', (100, 70), (16, 16), libver='v110')
make('latest', 'fixed_array', (100, 70), (16, 16), **gz)
for name in ('old', 'fixed', 'one'):  # a user block that came later
    blob = open(os.path.join(path, name + '.h5'), 'rb').read()
    open(os.path.join(path, name + 'jam.h5'), 'wb').write(b'user' * 128 + blob)
)"));
  int count = 0;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".h5") paths.push_back(entry.path());
  }
  for (const auto& path : paths) {
    SCOPED_TRACE(path);
    std::string written;
    write_bytes(path.string() + ".new", rewritten(path, written));
    write_bytes(path.string() + ".written", written);
    if (path.stem() != "latest") {
      EXPECT_EQ(
          std::system(("h5dump -d d '" + path.string() + ".new' > '" + path.string() + ".dump'").c_str()), 0);
      const std::string dump = bytes_of(path.string() + ".dump");
      EXPECT_GT(dump.size(), 1000U);
      EXPECT_EQ(dump.find("error"), std::string::npos);
    }
    ++count;
  }
  EXPECT_EQ(count, 17);
  EXPECT_TRUE(python(folder, R"(
import glob, itertools
for name in sorted(glob.glob(path + '/*.h5')):
    with h5py.File(name) as f: before = f['d'][...]; chunks = f['d'].chunks
    cells = list(itertools.product(*(range(0, n, c) for n, c in zip(before.shape, chunks))))
    with h5py.File(name + '.new') as f: after = f['d'][...]
    new = open(name + '.written', 'rb')
    done = 0
    for line in iter(new.readline, b''):
        cell, size = map(int, line.split())
        values = np.frombuffer(new.read(size), before.dtype).reshape(chunks)
        at = tuple(slice(o, min(o + c, n)) for o, c, n in zip(cells[cell], chunks, before.shape))
        before[at] = values[tuple(slice(0, s.stop - s.start) for s in at)]
        done += 1
    assert done >= len(cells) // 3 + 1 - (len(cells) == 1), (name, done)
    assert before.tobytes() == after.tobytes(), name
    with h5py.File(name + '.new', 'r+') as f:  # and it is a file to work with
        f['d'][...] = 1
        f['more'] = np.arange(10000)
    with h5py.File(name + '.new') as f:
        assert (f['d'][...] == 1).all() and (f['more'][...] == np.arange(10000)).all()
)"));
}

TEST(Rewrite, AChunkOfTheSameSizeAltersOnlyItsBytes) {
  const Scratch scratch;
  const auto folder = scratch / "files";
  ASSERT_TRUE(python(
      folder, chunk_file_script + "make('sum', 'fixed_array', (100, 70), (16, 16), fletcher32=True)\n"));
  const ChunkFile file = read_chunk_file(folder, "sum");
  const Source source(file.path);
  const ChunkTable table = file.open(source);
  const Chunk chunk = table.find(7).value();
  Rewrite rewrite(source, read_superblock(source));
  const Bytes stored = encode_chunk(file.layout.filters, 0, noise(1024, 3), ~0ULL, "d");
  rewrite.put_chunk(table, chunk, stored, 0);
  EXPECT_EQ(rewrite.finish(), (NewBytes{{chunk.offset, stored}}));
  EXPECT_EQ(rewrite.file_bytes(), source.size());
}

TEST(Rewrite, AMaskMayChangeToo) {
  const Scratch scratch;
  const auto folder = scratch / "files";
  ASSERT_TRUE(python(folder, chunk_file_script + "make('mask', 'fixed_array', (100, 70), (16, 16), "
                                                 "compression='gzip')\n"));
  const ChunkFile file = read_chunk_file(folder, "mask");
  const Source source(file.path);
  const ChunkTable table = file.open(source);
  Rewrite rewrite(source, read_superblock(source));
  rewrite.put_chunk(table, table.find(0).value(), Bytes(1024), 1);
  write_bytes(file.path.string() + ".new", applied(bytes_of(file.path), rewrite.finish()));
  EXPECT_TRUE(python(folder, R"(
with h5py.File(path + '/mask.h5.new') as f:
    assert (f['d'][:16, :16] == 0).all() and f['d'][...].any() and f['d'].id.get_chunk_info(0).filter_mask == 1
)"));
}

TEST(Rewrite, BytesThatTwoShareAreRefused) {
  const Source source(Bytes(1000), "shared.h5");
  Rewrite rewrite(source, Superblock{});
  rewrite.put(100, Bytes(50));
  rewrite.put(150, Bytes(10));
  rewrite.put(90, Bytes(10));
  for (const std::uint64_t at : {100U, 149U, 159U, 81U, 99U, 120U}) {
    EXPECT_ERROR(rewrite.put(at, Bytes(10)), conflict, "shared.h5: bytes ");
  }
  EXPECT_ERROR(rewrite.put(995, Bytes(10)), bad_file, "reaches beyond");
  EXPECT_ERROR(rewrite.put(Field{500, 2, std::nullopt}, 65536), unsupported, "does not fit");
  EXPECT_EQ(rewrite.finish().size(), 3U);
}

TEST(Rewrite, SumsThatCoverSumsComeLast) {
  Bytes bytes = noise(100, 9);
  const Source source(bytes, "sums.h5");
  Rewrite rewrite(source, Superblock{});
  rewrite.put(Field{10, 1, Seal{0, 60}}, bytes[10] ^ 1U);
  rewrite.touch({5, 20});
  rewrite.touch({62, 70, 90});
  const std::string after = applied({bytes.begin(), bytes.end()}, rewrite.finish());
  const Bytes all(after.begin(), after.end());
  const auto stored = [&](std::size_t at) {
    return all[at] | std::uint32_t{all[at + 1]} << 8 | std::uint32_t{all[at + 2]} << 16 |
           std::uint32_t{all[at + 3]} << 24;
  };
  EXPECT_EQ(stored(20), lookup3(std::span(all).subspan(5, 15)));
  EXPECT_EQ(stored(60), lookup3(std::span(all).subspan(0, 60)));
  Bytes zeroed(all.begin() + 62, all.begin() + 90);
  std::fill_n(zeroed.begin() + 8, 4, std::uint8_t{0});
  EXPECT_EQ(stored(70), lookup3(zeroed));
}

}  // namespace
}  // namespace bitrift::h5map::chunk_rewrite_test
