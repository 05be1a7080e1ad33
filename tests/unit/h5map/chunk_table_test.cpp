#include "h5map/chunk/chunk_table.h"

#include <chrono>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "h5map/h5_file.h"
#include "unit/h5map/chunk_files.h"

namespace bitrift::h5map::chunk_table_test {
namespace {

using testing::bytes_of;
using testing::chunk_file_script;
using testing::ChunkFile;
using testing::python;
using testing::read_chunk_file;
using testing::Scratch;

std::uint64_t number_at(const std::string& bytes, const Field& field) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + field.offset, field.bytes);
  return value;
}

// Table, file and h5py agree on every chunk, on its fields in the file, and on what is not there.
void expect_same(const ChunkFile& file) {
  SCOPED_TRACE(file.path);
  const std::string bytes = bytes_of(file.path);
  const Source source(file.path);
  const ChunkTable table = file.open(source);
  const std::vector<Chunk> all = table.all();
  ASSERT_EQ(all.size(), file.chunks.size());
  ASSERT_FALSE(all.empty());
  for (const Chunk& chunk : all) {
    const auto found = file.chunks.find(table.grid().position(chunk.cell));
    ASSERT_NE(found, file.chunks.end());
    const ChunkFile::Stored stored{chunk.offset, chunk.bytes, chunk.mask};
    ASSERT_EQ(stored, found->second);
    const ChunkFields fields = table.fields(chunk);
    if (fields.address.offset != 0) {
      EXPECT_EQ(number_at(bytes, fields.address) + file.frame.base, chunk.offset);
    }
    if (fields.bytes.offset != 0) {
      EXPECT_EQ(number_at(bytes, fields.bytes), chunk.bytes);
    }
    if (fields.mask.offset != 0) {
      EXPECT_EQ(number_at(bytes, fields.mask), chunk.mask);
    }
    const bool by_place = file.layout.chunked.index == ChunkIndex::implicit;
    EXPECT_EQ(fields.address.offset == 0, by_place);
    EXPECT_EQ(fields.bytes.offset != 0,
              !file.layout.filters.empty() || file.layout.chunked.index == ChunkIndex::btree1);
    if (const auto& seal = fields.address.seal) {
      const auto covered = source.read(seal->first, seal->at - seal->first, "entries");
      EXPECT_EQ(lookup3(covered), number_at(bytes, {seal->at, 4, {}}));
      EXPECT_GE(fields.address.offset, seal->first);
      EXPECT_LE(fields.address.offset + 8, seal->at);
    }
  }
  const std::uint64_t step = table.grid().count() > 5000 ? table.grid().count() / 1009 : 1;
  for (std::uint64_t cell = 0; cell < table.grid().count(); cell += step) {
    const auto expected = file.chunks.find(table.grid().position(cell));
    const auto found = table.find(cell);
    ASSERT_EQ(found.has_value(), expected != file.chunks.end()) << cell;
    if (found) {
      EXPECT_EQ(found->offset, expected->second.offset);
    }
  }
  EXPECT_FALSE(table.find(table.grid().count()));
}

// The layout that the object header gives leads to the same chunks.
void expect_same_by_header(const ChunkFile& file) {
  SCOPED_TRACE(file.path);
  const Source source(file.path);
  const ChunkTable table = file.open(source);
  const File parsed(file.path);
  const Dataset& dataset = parsed.datasets().at(0);
  ASSERT_EQ(dataset.problem, "");
  const ChunkTable other(parsed.source(), parsed.frame(), dataset.layout, dataset.space.shape,
                         dataset.space.max_shape, dataset.type->bytes, "d");
  const std::vector<Chunk> all = table.all();
  const std::vector<Chunk> again = other.all();
  ASSERT_EQ(all.size(), again.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].cell, again[i].cell);
    ASSERT_EQ(all[i].offset, again[i].offset);
    ASSERT_EQ(all[i].bytes, again[i].bytes);
    ASSERT_EQ(all[i].filtered, again[i].filtered);
    const ChunkFields one = table.fields(all[i]);
    const ChunkFields two = other.fields(again[i]);
    EXPECT_EQ(one.address.offset, two.address.offset);
    EXPECT_EQ(one.bytes.offset, two.bytes.offset);
    EXPECT_EQ(one.mask.offset, two.mask.offset);
  }
}

void expect_all_same(const std::string& makes) {
  const Scratch scratch;
  const auto folder = scratch / "files";
  ASSERT_TRUE(python(folder, chunk_file_script + makes));
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".h5") continue;
    const ChunkFile file = read_chunk_file(folder, entry.path().stem().string());
    expect_same(file);
    expect_same_by_header(file);
    ++count;
  }
  EXPECT_GT(count, 0U);
}

TEST(ChunkTable, EveryIndexIsReadAsH5pyReadsIt) {
  expect_all_same(R"(
gz = dict(compression='gzip', compression_opts=1)
for f, kw in (('', {}), ('z', gz), ('s', dict(fletcher32=True))):
    make('old' + f, 'btree1', (10, 7), (3, 2), libver='earliest', **kw)
    make('fixed' + f, 'fixed_array', (10, 7), (3, 2), **kw)
    make('fixedmax' + f, 'fixed_array', (10, 7), (3, 2), maxshape=(20, 30), **kw)
    make('grow0' + f, 'extensible_array', (10, 7, 5), (3, 2, 5), maxshape=(None, 14, 5), **kw)
    make('grow1' + f, 'extensible_array', (10, 7, 5), (3, 2, 2), maxshape=(12, None, 9), **kw)
    make('grow2' + f, 'extensible_array', (4, 7, 5, 3), (3, 2, 2, 1), maxshape=(12, 9, 5, None), **kw)
    make('tree' + f, 'btree2', (10, 7), (3, 2), maxshape=(None, None), **kw)
    make('one' + f, 'single', (10, 7), (10, 7), **kw)
    make('line' + f, 'fixed_array', (9,), (2,), base=1024, **kw)
    make('oldblock' + f, 'btree1', (4, 3, 2, 5), (2, 2, 1, 3), base=512, libver='earliest', **kw)
    make('growblock' + f, 'extensible_array', (40,), (3,), maxshape=(None,), base=2048, **kw)
make('none', 'implicit', (10, 7), (3, 2), early=True)
make('nonemax', 'implicit', (10, 7), (3, 2), maxshape=(10, 9), early=True, base=512)
)");
}

TEST(ChunkTable, ThousandsOfChunksReachEveryPartOfAnIndex) {
  expect_all_same(R"(
rows = lambda *at: lambda d: [d.__setitem__(i, 1) for i in at]
gz = dict(compression='gzip', compression_opts=1)
for f, kw in (('', {}), ('z', gz)):
    make('old' + f, 'btree1', (9000,), (1,), libver='earliest', dtype='i1', **kw)
    make('fixed' + f, 'fixed_array', (5000,), (1,), dtype='i1', **kw)
    make('grow' + f, 'extensible_array', (30000,), (1,), maxshape=(None,), dtype='i1', **kw)
    make('tree' + f, 'btree2', (95, 95), (1, 1), maxshape=(None, None), dtype='i1', **kw)
    make('holes' + f, 'fixed_array', (900000,), (1,), dtype='i1', fill=rows(0, 1023, 1024, 5000, 800000, 899999), **kw)
    make('far' + f, 'extensible_array', (9000000,), (1,), maxshape=(None,), dtype='i1', fill=rows(3, 4, 19, 20, 500, 40000, 700001, 8999999), **kw)
    make('few' + f, 'btree1', (900000,), (1,), dtype='i1', libver='earliest', fill=rows(7, 70000), **kw)
)");
}

TEST(ChunkTable, EdgeChunksMayBeUnfiltered) {
  const Scratch scratch;
  const auto folder = scratch / "files";
  ASSERT_TRUE(python(folder, chunk_file_script + R"(
gz = dict(compression='gzip', compression_opts=9)
make('fixed', 'fixed_array', (10, 7), (3, 2), partial=True, **gz)
make('grow', 'extensible_array', (10, 7), (3, 2), maxshape=(None, 7), partial=True, **gz)
make('tree', 'btree2', (10, 7), (3, 2), maxshape=(None, None), partial=True, **gz)
)"));
  for (const char* name : {"fixed", "grow", "tree"}) {
    const ChunkFile file = read_chunk_file(folder, name);
    expect_same(file);
    const Source source(file.path);
    const ChunkTable table = file.open(source);
    for (const Chunk& chunk : table.all()) {
      const auto at = table.grid().position(chunk.cell);
      EXPECT_EQ(chunk.filtered, at[0] < 3 && at[1] < 3) << name;
      if (!chunk.filtered) {
        EXPECT_EQ(chunk.bytes, 24U);
      }
    }
  }
}

TEST(ChunkTable, AShrunkDatasetKeepsNoChunkOutsideAndAGrownOneFindsItsOwn) {
  expect_all_same(R"(
def resize(*shapes):
    def fill(d):
        d[...] = 1
        for s in shapes:
            d.resize(s)
        d[...] = np.arange(d.size).reshape(d.shape)
    return fill
make('fixed', 'fixed_array', (10, 7), (3, 2), maxshape=(20, 30), fill=resize((4, 7), (18, 3), (18, 29)))
make('grow', 'extensible_array', (10, 7), (3, 2), maxshape=(12, None), fill=resize((4, 70), (5, 9)))
make('old', 'btree1', (10, 7), (3, 2), maxshape=(None, None), libver='earliest', fill=resize((4, 70), (5, 9)))
)");
}

// What follows alters files: it must end in an error or in a table, soon, and never elsewhere.
std::string outcome(const ChunkFile& file, std::vector<std::uint8_t> bytes) {
  try {
    const Source source(std::move(bytes), "altered.h5");
    const ChunkTable table = file.open(source);
    for (const Chunk& chunk : table.all()) {
      if (chunk.offset + chunk.bytes > source.size()) return "outside";
      (void)table.fields(chunk);
    }
    for (std::uint64_t cell = 0; cell < table.grid().count(); cell += 9) (void)table.find(cell);
    return "read";
  } catch (const Error& error) {
    const std::string text = error.what();
    return text.rfind("altered.h5: ", 0) == 0 && text.find('\n') == std::string::npos ? "refused" : text;
  }
}

TEST(ChunkTable, NoFlippedByteOfACheckedIndexPassesAndNoneOfAnotherLeavesTheFile) {
  const Scratch scratch;
  const auto folder = scratch / "files";
  ASSERT_TRUE(python(folder, chunk_file_script + R"(
make('fixed', 'fixed_array', (1100,), (1,), dtype='i1', compression='gzip')
make('grow', 'extensible_array', (200,), (1,), maxshape=(None,), dtype='i1')
make('tree', 'btree2', (12, 12), (1, 1), maxshape=(None, None), dtype='i1', compression='gzip')
make('old', 'btree1', (100,), (1,), dtype='i1', libver='earliest', compression='gzip')
)"));
  for (const char* name : {"fixed", "grow", "tree", "old"}) {
    const ChunkFile file = read_chunk_file(folder, name);
    const std::string text = bytes_of(file.path);
    const std::vector<std::uint8_t> good(text.begin(), text.end());
    ASSERT_EQ(outcome(file, good), "read");
    const bool is_checked = std::string(name) != "old";
    std::vector<bool> is_chunk(good.size());
    for (const auto& [at, stored] : file.chunks) {
      std::fill_n(is_chunk.begin() + static_cast<std::ptrdiff_t>(stored.offset), stored.bytes, true);
    }
    std::size_t refused = 0;
    for (std::size_t at = 0; at < good.size(); at += is_checked ? 23 : 5) {
      auto bytes = good;
      bytes[at] ^= static_cast<std::uint8_t>(1U << (at % 8));
      const std::string found = outcome(file, std::move(bytes));
      EXPECT_TRUE(found == "read" || found == "refused") << name << " " << at << " " << found;
      if (found == "refused") ++refused;
      if (is_chunk[at]) {
        EXPECT_EQ(found, "read") << name << " " << at;
      }
    }
    EXPECT_GT(refused, 20U) << name;
    for (std::size_t size = 0; size < good.size(); size += 197) {
      const std::string found =
          outcome(file, {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)});
      EXPECT_TRUE(found == "read" || found == "refused") << name << " cut at " << size << " " << found;
    }
  }
}

TEST(ChunkTable, ShapesThatContradictTheLayoutAreRefused) {
  const Source source(std::vector<std::uint8_t>(100), "made.h5");
  Layout layout;
  layout.chunked.chunk = {2, 2};
  layout.chunked.address = undefined;
  const auto open = [&](std::vector<std::uint64_t> shape, std::vector<std::uint64_t> most, ChunkIndex index,
                        std::uint64_t element = 4) {
    layout.chunked.index = index;
    return ChunkTable(source, Frame{}, layout, shape, most, element, "d").all().size();
  };
  EXPECT_EQ(open({5, 5}, {5, 5}, ChunkIndex::fixed_array), 0U);
  EXPECT_EQ(open({0, 5}, {undefined, 5}, ChunkIndex::extensible_array), 0U);
  EXPECT_ERROR(open({5}, {5}, ChunkIndex::fixed_array), bad_file, "made.h5: d: has 1 dimensions");
  EXPECT_ERROR(open({5, 5}, {4, 5}, ChunkIndex::fixed_array), bad_file, "at most");
  EXPECT_ERROR(open({5, 5}, {undefined, 5}, ChunkIndex::fixed_array), bad_file, "unlimited");
  EXPECT_ERROR(open({5, 5}, {5, 5}, ChunkIndex::extensible_array), bad_file, "unlimited");
  EXPECT_ERROR(open({5, 5}, {5, 5}, ChunkIndex::fixed_array, 0), bad_file, "no bytes");
  EXPECT_ERROR(open({5, 5}, {5, 5}, ChunkIndex::fixed_array, undefined), unsupported, "2^63");
  EXPECT_ERROR(open({undefined - 1, undefined - 1}, {undefined, undefined}, ChunkIndex::btree2), unsupported,
               "2^63");
  layout.chunked.chunk = {0, 2};
  EXPECT_ERROR(open({5, 5}, {5, 5}, ChunkIndex::fixed_array), bad_file, "no extent");
  layout.chunked.chunk = std::vector<std::uint64_t>(33, 1);
  EXPECT_ERROR(open(layout.chunked.chunk, layout.chunked.chunk, ChunkIndex::btree2), bad_file, "33");
}

TEST(ChunkTable, ComputedPlacesMustLieInTheFile) {
  const Source source(std::vector<std::uint8_t>(1000), "made.h5");
  Layout layout;
  layout.chunked.chunk = {10};
  layout.chunked.index = ChunkIndex::implicit;
  layout.chunked.address = 200;
  const std::vector<std::uint64_t> fits = {200};
  const std::vector<std::uint64_t> more = {201};
  EXPECT_EQ(ChunkTable(source, Frame{}, layout, fits, fits, 4, "d").all().back().offset, 960U);
  EXPECT_ERROR(ChunkTable(source, Frame{}, layout, more, more, 4, "d"), bad_file, "reaches beyond");
  layout.chunked.index = ChunkIndex::single;
  EXPECT_ERROR(ChunkTable(source, Frame{}, layout, fits, fits, 4, "d"), bad_file, "one chunk");
  layout.chunked.chunk = {200};
  EXPECT_EQ(ChunkTable(source, Frame{}, layout, fits, fits, 4, "d").all().size(), 1U);
  layout.chunked.address = 201;
  EXPECT_ERROR((void)ChunkTable(source, Frame{}, layout, fits, fits, 4, "d").all(), bad_file,
               "reaches beyond");
}

}  // namespace
}  // namespace bitrift::h5map::chunk_table_test
