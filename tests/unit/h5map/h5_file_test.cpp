#include "h5map/h5_file.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "h5map/chunk/chunk_table.h"
#include "unit/h5map/corpus.h"
#include "unit/h5map/describe.h"

namespace bitrift::h5map::h5_file_test {
namespace {

using testing::bytes_of;
using testing::describe;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using testing::python;
using testing::Scratch;
using testing::write_bytes;

class FileTest : public testing::CorpusTest {};

/// The first lines that differ; "" when the texts are equal.
std::string first_difference(const std::string& found, const std::string& expected) {
  std::istringstream a(found), b(expected);
  std::string line_a, line_b;
  while (true) {
    const bool more_a = static_cast<bool>(std::getline(a, line_a));
    const bool more_b = static_cast<bool>(std::getline(b, line_b));
    if (!more_a && !more_b) return "";
    if (more_a != more_b || line_a != line_b) {
      return "found: " + (more_a ? line_a : "nothing") + "\nh5py:  " + (more_b ? line_b : "nothing");
    }
  }
}

const Dataset& dataset(const File& file, const std::string& path) {
  for (const Dataset& found : file.datasets()) {
    if (found.path == path) return found;
  }
  throw std::out_of_range(path);
}

TEST_F(FileTest, EveryFileReadsAsH5pyReadsIt) {
  ASSERT_GE(files().size(), 20U);
  for (const auto& path : files()) {
    const std::string expected = bytes_of(std::filesystem::path(path).replace_extension(".txt"));
    ASSERT_FALSE(expected.empty());
    EXPECT_EQ(first_difference(describe(File(path)), expected), "") << path;
  }
}

/// Inverts one byte of every attribute that has plain values and of every compact dataset, and mends what
/// covers it. True when there was something.
bool alter_values(const std::filesystem::path& path) {
  const File file(path);
  std::string bytes = bytes_of(path);
  std::map<std::uint64_t, std::optional<Seal>> places;
  const auto add = [&](std::uint64_t header) {
    for (const Attribute& attribute : file.attributes(header)) {
      const bool numbers = attribute.type->plain() && !testing::has_text(*attribute.type);
      if (numbers && attribute.bytes > 0) places[attribute.offset] = attribute.seal;
    }
  };
  for (const Dataset& found : file.datasets()) {
    add(found.header);
    if (found.layout.storage == Storage::compact) places[found.layout.offset] = found.layout.seal;
  }
  for (const Group& group : file.groups()) add(group.header);
  for (const auto& [offset, seal] : places) bytes[offset] = static_cast<char>(~bytes[offset]);
  for (const auto& [offset, seal] : places) {
    if (!seal) continue;
    const std::vector<std::uint8_t> covered(bytes.begin() + static_cast<std::ptrdiff_t>(seal->first),
                                            bytes.begin() + static_cast<std::ptrdiff_t>(seal->covered_end()));
    const std::uint32_t sum = sum_for(*seal, covered);
    for (unsigned i = 0; i < 4; ++i) bytes[seal->at + i] = static_cast<char>(sum >> (8 * i));
  }
  write_bytes(path, bytes);
  return !places.empty();
}

TEST_F(FileTest, ValuesAlteredAtTheirOffsetsAreWhatH5pyReads) {
  for (const char* name : {"all_earliest", "all_latest", "dense", "order_latest", "order_earliest",
                           "shared_latest", "shared_earliest", "small_latest", "user_latest"}) {
    const std::filesystem::path path = folder_->path() / (std::string(name) + ".altered.h5");
    std::filesystem::copy_file(corpus(std::string(name) + ".h5"), path);
    const std::string before = describe(File(path));
    ASSERT_TRUE(alter_values(path)) << name;
    const std::string after = describe(File(path));
    EXPECT_NE(before, after) << name;
    EXPECT_EQ(first_difference(after, witness(path)), "") << name;
  }
}

TEST_F(FileTest, TheMapHasNeitherGapsNorOverlapsAndKnowsTheValues) {
  for (const auto& path : files()) {
    const File file(path);
    std::uint64_t at = 0;
    std::map<std::string, std::uint64_t> bytes;
    const StructureMap map = file.structures();
    for (const Extent& extent : map.extents()) {
      ASSERT_EQ(extent.first, at) << path;
      ASSERT_LT(extent.first, extent.end) << path;
      at = extent.end;
      bytes[std::string(extent.kind)] += extent.end - extent.first;
    }
    EXPECT_EQ(at, std::filesystem::file_size(path)) << path;
    std::uint64_t contiguous = 0;
    for (const Dataset& found : file.datasets()) {
      const bool placed = found.layout.storage == Storage::contiguous && found.layout.offset != undefined;
      if (placed) contiguous += found.layout.bytes;
    }
    EXPECT_EQ(bytes["raw data, contiguous"], contiguous) << path;
    EXPECT_EQ(bytes["user block"], file.frame().base) << path;
  }
}

TEST_F(FileTest, TheMapNamesStructuresOfBothGenerations) {
  const auto kinds = [](const std::filesystem::path& path) {
    std::set<std::string> found;
    const StructureMap map = File(path).structures();
    for (const Extent& extent : map.extents()) found.emplace(extent.kind);
    return found;
  };
  EXPECT_THAT(
      kinds(corpus("all_earliest.h5")),
      IsSupersetOf({"superblock", "object header", "group B-tree node", "symbol table node", "local heap",
                    "local heap data", "global heap", "attribute value", "raw data, contiguous",
                    "raw data, compact", "raw data, chunk", "object header continuation"}));
  EXPECT_THAT(kinds(corpus("dense.h5")),
              IsSupersetOf({"fractal heap header", "fractal heap direct block", "fractal heap huge object",
                            "B-tree header", "B-tree node", "free space manager"}));
  EXPECT_THAT(kinds(corpus("links_latest.h5")), IsSupersetOf({"fractal heap indirect block"}));
  EXPECT_THAT(kinds(corpus("shared_latest.h5")), IsSupersetOf({"shared message table"}));
}

TEST_F(FileTest, BytesBelongToTheObjectThatTheyDescribe) {
  const File file(corpus("all_latest.h5"));
  const StructureMap map = file.structures();
  const auto owner = [&](std::uint64_t offset) {
    return std::string(map.at(offset).kind) + " of " + std::string(map.at(offset).owner);
  };
  const Dataset& compact = dataset(file, "part3/compact");
  EXPECT_EQ(owner(compact.header), "object header of /part3/compact");
  EXPECT_EQ(owner(compact.layout.offset), "raw data, compact of /part3/compact");
  EXPECT_EQ(owner(dataset(file, "part3/contiguous").layout.offset),
            "raw data, contiguous of /part3/contiguous");
  EXPECT_EQ(owner(0), "superblock of ");
  // "/committed" comes before "/kind", whose type it has.
  const auto of_kind = [](const Extent& extent) { return extent.owner == "/kind"; };
  EXPECT_TRUE(std::any_of(map.extents().begin(), map.extents().end(), of_kind));
}

TEST_F(FileTest, EveryKindOfChunkIndexIsTold) {
  const File old(corpus("all_earliest.h5")), current(corpus("all_latest.h5"));
  const auto index = [](const File& file, const char* path) {
    return dataset(file, path).layout.chunked.index;
  };
  EXPECT_EQ(index(old, "part3/gzip"), ChunkIndex::btree1);
  EXPECT_EQ(index(current, "part3/gzip"), ChunkIndex::fixed_array);
  EXPECT_EQ(index(current, "part3/one"), ChunkIndex::single);
  EXPECT_EQ(index(current, "part3/early"), ChunkIndex::implicit);
  EXPECT_EQ(index(current, "part3/tree"), ChunkIndex::btree2);
  EXPECT_EQ(index(current, "part2/growing"), ChunkIndex::extensible_array);
  const File former(corpus("all_v114.h5"));
  EXPECT_FALSE(dataset(former, "part3/gzip").layout.chunked.full_sizes);
  EXPECT_TRUE(dataset(current, "part3/gzip").layout.chunked.full_sizes);
}

TEST_F(FileTest, ATreeOfTwoChildrenANodeIsReadToItsLastLevel) {
  const File file(corpus("deep_tree.h5"));
  const Dataset& deep = dataset(file, "deep");
  const ChunkTable table(file.source(), file.frame(), deep.layout, deep.space.shape, deep.space.max_shape,
                         deep.type->bytes, deep.path);
  const std::vector<Chunk> chunks = table.all();
  ASSERT_EQ(chunks.size(), 100U);
  EXPECT_EQ(table.find(99)->offset, chunks.back().offset);
}

TEST_F(FileTest, OtherFilesAreNamed) {
  for (const char* name : {"all_earliest.h5", "all_latest.h5"}) {
    const File file(corpus(name));
    const Layout& external = dataset(file, "part3/external").layout;
    ASSERT_EQ(external.external.size(), 2U);
    EXPECT_EQ(external.external[0].file, "raw.bin");
    EXPECT_EQ(external.external[0].bytes, 48U);
    EXPECT_EQ(external.external[1].file, "more.bin");
    EXPECT_EQ(external.external[1].offset, 16U);
    EXPECT_EQ(external.external[1].bytes, undefined);
    const auto& sources = dataset(file, "part3/virtual_a_source_of_a_long_name").layout.virtual_sources;
    ASSERT_EQ(sources.size(), 4U);
    EXPECT_EQ(sources[3].file, "a_source_of_a_long_name1.h5");
    EXPECT_EQ(sources[3].dataset, "data/some_dataset");
    EXPECT_FALSE(sources[3].virtual_selection.empty());
    const auto& here = dataset(file, "part3/virtual_here").layout.virtual_sources;
    ASSERT_EQ(here.size(), 1U);
    EXPECT_EQ(here[0].file, ".");
    EXPECT_EQ(here[0].dataset, "/part3/contiguous");
  }
}

TEST_F(FileTest, ShapesThatMayGrowAndFillValuesAreTold) {
  const File file(corpus("all_v110.h5"));
  EXPECT_THAT(dataset(file, "part2/growing").space.max_shape, ElementsAre(undefined, 8));
  EXPECT_FALSE(dataset(file, "part2/filled").fill.empty());
  EXPECT_TRUE(dataset(file, "part2/unwritten").fill.empty());
  EXPECT_EQ(dataset(file, "part2/null").space.kind, Dataspace::Kind::null);
  EXPECT_EQ(dataset(file, "part2/scalar").space.kind, Dataspace::Kind::scalar);
}

TEST_F(FileTest, TextsOfTheRootAreReadWhatEverTheirKind) {
  const Scratch scratch;
  ASSERT_TRUE(python(scratch / "t.h5",
                     "with h5py.File(path, 'w') as f:\n"
                     "  f.attrs['varying'] = 'möglich'\n"
                     "  f.attrs['fixed'] = np.bytes_(b'four')\n"
                     "  f.attrs['empty'] = ''\n"
                     "  f.attrs['number'] = 3\n"
                     "  f.attrs['several'] = ['a', 'b']\n"
                     "  f.attrs['long'] = 'x' * 70000\n"
                     "  t = h5py.h5t.C_S1.copy(); t.set_size(6); t.set_strpad(h5py.h5t.STR_SPACEPAD)\n"
                     "  s = h5py.h5s.create(h5py.h5s.SCALAR)\n"
                     "  h5py.h5a.create(f.id, b'spaces', t, s).write(np.array(b'ab    ', 'S6'), mtype=t)\n"));
  const auto texts = File(scratch / "t.h5").root_texts();
  EXPECT_EQ(texts, (std::map<std::string, std::string>{{"varying", "möglich"},
                                                       {"fixed", "four"},
                                                       {"empty", ""},
                                                       {"long", std::string(70000, 'x')},
                                                       {"spaces", "ab"}}));
}

TEST_F(FileTest, GlobalHeapsAreReadWhateverTheSizeOfLengths) {
  for (const char* name : {"short_4_4_earliest.h5", "short_4_4_latest.h5", "short_4_8_latest.h5",
                           "short_8_4_earliest.h5", "short_8_4_latest.h5"}) {
    SCOPED_TRACE(name);
    const File file(corpus(name));
    EXPECT_EQ(file.root_texts(),
              (std::map<std::string, std::string>{{"other", "behind it"}, {"text", "in a heap"}}));
    const auto& sources = dataset(file, "virtual").layout.virtual_sources;
    ASSERT_EQ(sources.size(), 1U);
    EXPECT_EQ(sources[0].file, "source.h5");
  }
}

TEST_F(FileTest, ListsOfTextsAreReadInAnyGroup) {
  const Scratch scratch;
  ASSERT_TRUE(python(scratch / "t.h5",
                     "with h5py.File(path, 'w') as f:\n"
                     "  g = f.create_group('a/b')\n"
                     "  g.attrs['varying'] = ['one', '', 'möglich']\n"
                     "  g.attrs['fixed'] = np.array([b'conv', b'bn', b''])\n"
                     "  g.attrs['one'] = 'text'\n"
                     "  g.attrs['number'] = np.arange(3)\n"
                     "  g.attrs['table'] = np.array([[b'a', b'b']])\n"
                     "  g.attrs['none'] = np.array([], 'S3')\n"
                     "  g.attrs['null'] = h5py.Empty('S3')\n"
                     "  f['a/data'] = 1.0\n"
                     "  f['a/data'].attrs['x'] = 'y'\n"));
  const File file(scratch / "t.h5");
  EXPECT_THAT(file.texts("a/b", "varying"), ElementsAre("one", "", "möglich"));
  EXPECT_THAT(file.texts("a/b", "fixed"), ElementsAre("conv", "bn", ""));
  EXPECT_THAT(file.texts("a/b", "one"), ElementsAre("text"));
  for (const char* name : {"number", "table", "none", "null", "absent"}) {
    EXPECT_TRUE(file.texts("a/b", name).empty()) << name;
  }
  EXPECT_TRUE(file.texts("", "one").empty());
  EXPECT_TRUE(file.texts("a/data", "x").empty());  // no group
}

TEST_F(FileTest, TheEndOfFileFieldHoldsWhatTheFormulaSays) {
  for (const auto& path : files()) {
    const File file(path);
    const Superblock& block = file.superblock();
    const auto bytes =
        file.source().read(block.end_of_file_field.offset, block.end_of_file_field.bytes, "field");
    Cursor cursor(bytes, "f", "field");
    EXPECT_EQ(cursor.address(block.end_of_file_field.bytes),
              block.end_of_file - block.offset + block.stored_base);
    EXPECT_EQ(block.end_of_file, std::filesystem::file_size(path)) << path;
  }
}

}  // namespace
}  // namespace bitrift::h5map::h5_file_test
