#include "h5map/structure/btree2.h"

#include <cstring>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/scratch.h"

namespace bitrift::h5map::btree2_test {
namespace {

using testing::bytes_of;
using testing::python;
using testing::Scratch;
using testing::write_bytes;

std::uint64_t number_at(std::span<const std::uint8_t> bytes, std::size_t at) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, 8);
  return value;
}

// Chunks of one row each; `rows` of them, as lines "row address" in <path>.chunks.
std::filesystem::path chunked_file(const Scratch& scratch, int rows) {
  auto path = scratch / "tree.h5";
  EXPECT_TRUE(python(path, "rows = " + std::to_string(rows) + R"(
with h5py.File(path, 'w', libver='latest') as f:
    d = f.create_dataset('d', (rows, 3), chunks=(1, 3), maxshape=(None, None), dtype='<i4')
    d[:] = np.arange(rows * 3).reshape(rows, 3)
    found = []
    d.id.chunk_iter(lambda c: found.append((c.chunk_offset[0], c.byte_offset)))
    open(path + '.chunks', 'w').write(''.join('%d %d\n' % one for one in found))
)"));
  return path;
}

TEST(BTree2, HoldsTheChunksThatH5pySees) {
  for (const int rows : {1, 84, 20'000}) {  // a leaf, a full leaf, three levels
    const Scratch scratch;
    const auto path = chunked_file(scratch, rows);
    const std::string bytes = bytes_of(path);
    const Source source(path);
    const BTree2 tree(source, Frame{}, bytes.find("BTHD"));
    EXPECT_EQ(tree.type(), 10U);
    ASSERT_EQ(tree.record_bytes(), 24U);
    EXPECT_EQ(tree.record_count(), static_cast<std::uint64_t>(rows));
    std::string seen;
    tree.visit([&](const BTree2::Record& record) {
      seen += std::to_string(number_at(record.bytes, 8)) + " " + std::to_string(number_at(record.bytes, 0)) +
              "\n";
      EXPECT_EQ(std::memcmp(record.bytes.data(), bytes.data() + record.offset, 24), 0);
    });
    EXPECT_EQ(seen, bytes_of(path.string() + ".chunks"));
  }
}

TEST(BTree2, FindReachesEveryRecordAndNoOther) {
  const Scratch scratch;
  const auto path = chunked_file(scratch, 9'000);
  const Source source(path);
  const BTree2 tree(source, Frame{}, bytes_of(path).find("BTHD"));
  for (std::uint64_t row = 0; row < 9'010; row += 7) {
    const auto order = [&](std::span<const std::uint8_t> record) { return row <=> number_at(record, 8); };
    std::uint64_t found = ~0ULL;
    const bool is_there = tree.find(order, [&](const BTree2::Record& r) { found = number_at(r.bytes, 8); });
    EXPECT_EQ(is_there, row < 9'000);
    if (is_there) {
      EXPECT_EQ(found, row);
    }
  }
}

TEST(BTree2, ASealCoversItsRecordAndHoldsItsSum) {
  const Scratch scratch;
  const auto path = chunked_file(scratch, 9'000);
  const std::string bytes = bytes_of(path);
  const Source source(path);
  std::set<Seal> seals;
  BTree2(source, Frame{}, bytes.find("BTHD")).visit([&](const BTree2::Record& record) {
    EXPECT_LE(record.seal.first, record.offset);
    EXPECT_LE(record.offset + record.bytes.size(), record.seal.at);
    seals.insert(record.seal);
  });
  EXPECT_GT(seals.size(), 100U);
  for (const Seal& seal : seals) {
    const auto covered = source.read(seal.first, seal.at - seal.first, "node");
    std::uint32_t stored = 0;
    std::memcpy(&stored, bytes.data() + seal.at, 4);
    EXPECT_EQ(lookup3(covered), stored);
  }
}

TEST(BTree2, EveryFlippedByteOfItsStructuresIsRefused) {
  const Scratch scratch;
  const auto path = chunked_file(scratch, 300);
  std::string bytes = bytes_of(path);
  const std::size_t header = bytes.find("BTHD");
  std::set<Seal> seals = {{header, header + 34}};
  {
    const Source source(path);
    BTree2(source, Frame{}, header).visit([&](const BTree2::Record& record) { seals.insert(record.seal); });
  }
  ASSERT_GT(seals.size(), 4U);
  for (const Seal& seal : seals) {
    for (std::uint64_t at = seal.first; at < seal.at + 4; ++at) {
      std::vector<std::uint8_t> altered(bytes.begin(), bytes.end());
      altered[at] ^= 0x40;
      const Source source(std::move(altered), "altered.h5");
      EXPECT_ERROR(BTree2(source, Frame{}, header).visit([](const BTree2::Record&) {}), bad_file,
                   "altered.h5: ");
    }
  }
}

// A checksum makes a lie no truth: all below is sealed rightly.
void put(std::vector<std::uint8_t>& bytes, std::size_t at, std::uint64_t value, unsigned width) {
  for (unsigned i = 0; i < width; ++i) bytes[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
}

void seal(std::vector<std::uint8_t>& bytes, std::size_t first, std::size_t at) {
  put(bytes, at, lookup3(std::span(bytes).subspan(first, at - first)), 4);
}

void visit_all(const std::vector<std::uint8_t>& bytes, std::size_t header) {
  const Source source(bytes, "lie.h5");
  BTree2(source, Frame{}, header).visit([](const BTree2::Record&) {});
}

TEST(BTree2, LiesUnderRightChecksumsAreRefused) {
  const Scratch scratch;
  const auto path = chunked_file(scratch, 300);
  const std::string text = bytes_of(path);
  const std::vector<std::uint8_t> good(text.begin(), text.end());
  const std::size_t header = text.find("BTHD");
  struct Lie {
    std::size_t at;
    std::uint64_t value;
    unsigned width;
  };
  for (const Lie& lie : std::initializer_list<Lie>{{26, 301, 8},          // more records than there are
                                                   {24, 9, 2},            // root of another size
                                                   {12, 60, 2},           // deeper than it is
                                                   {12, 65'000, 2},       // deeper than any can be
                                                   {6, 0xffffffff, 4},    // larger nodes: other widths
                                                   {6, 12, 4},            // nodes smaller than a record
                                                   {10, 0, 2},            // records of no bytes
                                                   {16, text.size(), 8},  // root beyond the file's end
                                                   {16, ~0ULL - 1, 8},    // root beyond every file's end
                                                   {16, header, 8}}) {    // root is the header
    std::vector<std::uint8_t> bytes = good;
    put(bytes, header + lie.at, lie.value, lie.width);
    seal(bytes, header, header + 34);
    SCOPED_TRACE(lie.at);
    EXPECT_ERROR(visit_all(bytes, header), bad_file, "lie.h5: ");
  }
}

TEST(BTree2, ANodeThatIsItsOwnSiblingIsRefused) {
  const Scratch scratch;
  const auto path = chunked_file(scratch, 300);
  const std::string text = bytes_of(path);
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  const std::size_t header = text.find("BTHD");
  const std::size_t root = number_at(bytes, header + 16);
  const std::size_t records = bytes[header + 24];
  const std::size_t pointers = root + 6 + records * 24;
  for (std::size_t i = 0; i < 9; ++i) bytes[pointers + 9 + i] = bytes[pointers + i];
  seal(bytes, root, pointers + (records + 1) * 9);
  EXPECT_ERROR(visit_all(bytes, header), bad_file, "twice");
}

TEST(BTree2, LinksOfALargeGroupAreFound) {
  const Scratch scratch;
  const auto path = scratch / "group.h5";
  ASSERT_TRUE(python(path, R"(
with h5py.File(path, 'w', libver='latest', userblock_size=512) as f:
    for i in range(5000): f['name%d' % i] = h5py.SoftLink('/x')
)"));
  const Source source(path);
  const BTree2 tree(source, Frame{512, 8, 8}, bytes_of(path).find("BTHD"));
  EXPECT_EQ(tree.type(), 5U);
  std::uint64_t count = 0;
  std::uint64_t last = 0;
  tree.visit([&](const BTree2::Record& record) {
    std::uint32_t hash = 0;
    std::memcpy(&hash, record.bytes.data(), 4);
    EXPECT_LE(last, hash);
    last = hash, ++count;
  });
  EXPECT_EQ(count, 5000U);
}

}  // namespace
}  // namespace bitrift::h5map::btree2_test
