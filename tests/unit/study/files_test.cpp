#include <algorithm>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "study/part/damage.h"
#include "study/part/two_saves.h"
#include "unit/scratch.h"

namespace bitrift::study {
namespace {

using bitrift::testing::bytes_of;
using bitrift::testing::python;
using bitrift::testing::Scratch;
using bitrift::testing::write_bytes;

constexpr FileKind npz{Format::npz, FileWriter::native, ".npz", ""};

// All bytes of a file, each once and in one stratum.
void expect_tiled(const FileBits& bits, const std::string& file, std::uint64_t size) {
  std::map<std::uint64_t, std::uint64_t> extents;
  for (const auto stratum : {BitStratum::payload, BitStratum::metadata}) {
    for (const BitExtent& extent : bits.extents(stratum)) {
      if (extent.file != file) continue;
      EXPECT_TRUE(extents.emplace(extent.first, extent.end).second);
    }
  }
  std::uint64_t at = 0;
  for (const auto& [first, end] : extents) {
    EXPECT_EQ(first, at);
    at = end;
  }
  EXPECT_EQ(at, size);
}

TEST(FileBits, PayloadOfAnArchiveIsWhatHoldsTheValues) {
  const Scratch scratch;
  const auto path = scratch / "a.npz";
  ASSERT_TRUE(python(path, "np.savez(path, w=np.arange(5, dtype='f4'), b=np.full(3, 0.5))\n"));
  const FileBits bits(path);
  const std::string content = bytes_of(path);
  expect_tiled(bits, "", content.size());
  EXPECT_EQ(bits.bits(BitStratum::payload), 8 * (20 + 24));
  EXPECT_EQ(bits.bytes(), content.size());
  for (const BitExtent& extent : bits.extents(BitStratum::payload)) {
    const std::string half("\0\0\0\0\0\0\xe0\x3f", 8);
    if (extent.structure != "b") continue;
    EXPECT_EQ(content.substr(extent.first, extent.end - extent.first), half + half + half);
  }
}

TEST(FileBits, ChecksumsOfACheckpointAreMetadata) {
  const Scratch scratch;
  const auto path = scratch / "a.h5";
  ASSERT_TRUE(
      python(path,
             "with h5py.File(path, 'w') as f:\n"
             "  f['model/w'] = np.arange(100, dtype='f4')\n"
             "  f['checksum/crc32c'] = np.arange(50, dtype='u4')\n"
             "  f.create_dataset('model/z', data=np.arange(4000), chunks=True, compression='gzip')\n"));
  const FileBits bits(path);
  expect_tiled(bits, "", bytes_of(path).size());
  std::set<std::string> payload, metadata;
  for (const BitExtent& extent : bits.extents(BitStratum::payload)) payload.insert(extent.structure);
  for (const BitExtent& extent : bits.extents(BitStratum::metadata)) metadata.insert(extent.structure);
  EXPECT_EQ(payload, (std::set<std::string>{"model/w", "model/z"}));
  EXPECT_TRUE(metadata.contains("values of checksum/crc32c"));
}

TEST(FileBits, OfAFolderTheWriterSaysWhatIsPayload) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "d");
  write_bytes(scratch / "d" / "a", std::string(10, 'x'));
  write_bytes(scratch / "d" / "b", std::string(4, 'x'));
  const FileBits bits(scratch / "d", {{"a", 6, 8, "w"}, {"a", 2, 4, "v"}});
  expect_tiled(bits, "a", 10);
  expect_tiled(bits, "b", 4);
  EXPECT_EQ(bits.bits(BitStratum::payload), 32);
  EXPECT_EQ(bits.locate(BitStratum::payload, 17), (BitFault{"a", 6, 1, "w"}));
  EXPECT_EQ(bits.locate(BitStratum::metadata, 8 * 9 + 7), (BitFault{"b", 3, 7, "b"}));
  EXPECT_EQ(bits.structure_at("a", 7), "w");
  EXPECT_EQ(bits.structure_at("a", 10), "");
  EXPECT_ERROR((FileBits{scratch / "d", {{"a", 6, 11, "w"}}}), bad_file, "end beyond it");
  EXPECT_ERROR((FileBits{scratch / "d", {{"a", 1, 4, "w"}, {"a", 3, 5, "v"}}}), bad_file, "share byte 3");
  EXPECT_ERROR((FileBits{scratch / "d", {{"c", 1, 4, "w"}}}), bad_file, "no file c");
}

TEST(FileBits, OfAFileTheWriterMaySayItToo) {
  const Scratch scratch;
  write_bytes(scratch / "a.keras", std::string(10, 'x'));
  const FileBits bits(scratch / "a.keras", {{"", 6, 8, "w"}});
  expect_tiled(bits, "", 10);
  EXPECT_EQ(bits.locate(BitStratum::payload, 8), (BitFault{"", 7, 0, "w"}));
  EXPECT_EQ(bits.structure_at("", 8), "a.keras");
  EXPECT_ERROR((FileBits{scratch / "a.keras", {{"", 6, 11, "w"}}}), bad_file,
               "a.keras: values of a tensor end");
}

TEST(DrawFaults, TakesEveryBitOnceAndDependsOnSeedKindAndStratum) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "d");
  write_bytes(scratch / "d" / "a", std::string(64, 'x'));
  const FileBits bits(scratch / "d", {{"a", 0, 32, "w"}});
  const auto all = draw_faults(bits, npz, BitStratum::payload, 5, 1000);
  std::set<std::pair<std::uint64_t, int>> places;
  for (const BitFault& fault : all) places.emplace(fault.byte, fault.bit);
  EXPECT_EQ(all.size(), 256);
  EXPECT_EQ(places.size(), 256);
  const auto some = draw_faults(bits, npz, BitStratum::payload, 5, 20);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
  EXPECT_NE(draw_faults(bits, npz, BitStratum::payload, 6, 20), some);
  EXPECT_NE(draw_faults(bits, {Format::pytorch, FileWriter::native, "", ""}, BitStratum::payload, 5, 20),
            some);
  for (const BitFault& fault : draw_faults(bits, npz, BitStratum::metadata, 5, 256))
    EXPECT_GE(fault.byte, 32);
}

TEST(WorkingCopy, FlipsAndRestoresWithoutTouchingTheOriginal) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "d");
  const std::string content = "abcdefgh";
  write_bytes(scratch / "d" / "a", content);
  const std::string digest = digest_of_files(scratch / "d");
  {
    const WorkingCopy copy(scratch / "d", scratch / "w");
    copy.flip({"a", 1, 0, ""});
    EXPECT_EQ(bytes_of(copy.path() / "a"), "accdefgh");
    EXPECT_NE(digest_of_files(copy.path()), digest);
    copy.flip({"a", 1, 0, ""});
    EXPECT_EQ(digest_of_files(copy.path()), digest);
    copy.zero({{"a", 2, 4, ""}});
    EXPECT_EQ(bytes_of(copy.path() / "a"), std::string("ab\0\0efgh", 8));
    write_bytes(copy.path() / "more", "x");
    copy.renew();
    EXPECT_EQ(digest_of_files(copy.path()), digest);
  }
  EXPECT_EQ(bytes_of(scratch / "d" / "a"), content);
  EXPECT_FALSE(std::filesystem::exists(scratch / "w"));
}

TEST(ExtentsToZero, AreThoseOfTheLargestTensorThatIsNotZeroAlready) {
  const Scratch scratch;
  const auto path = scratch / "a.npz";
  ASSERT_TRUE(python(path, "np.savez(path, large=np.zeros(50), middle=np.arange(9.), small=np.ones(3))\n"));
  const auto extents = extents_to_zero({npz, path, FileBits(path)});
  ASSERT_EQ(extents.size(), 1);
  EXPECT_EQ(extents[0].structure, "middle");
  ASSERT_TRUE(python(path, "np.savez(path, large=np.zeros(50))\n"));
  EXPECT_ERROR((void)extents_to_zero({npz, path, FileBits(path)}), unsupported, "all tensors are zero");
}

TEST(CompareSaves, NamesTheFirstDifferenceAndItsStructure) {
  const Scratch scratch;
  for (const char* name : {"one", "two"}) {
    std::filesystem::create_directory(scratch / name);
    write_bytes(scratch / name / "a", "same");
    write_bytes(scratch / name / "b", "0123456789");
  }
  const FileBits bits(scratch / "one", {{"b", 2, 6, "w"}});
  EXPECT_TRUE(compare_saves(scratch / "one", scratch / "two", bits).equal);
  write_bytes(scratch / "two" / "b", "012x45y789z");
  const DeterminismResult result = compare_saves(scratch / "one", scratch / "two", bits);
  EXPECT_FALSE(result.equal);
  EXPECT_EQ(*result.first_difference, (BitFault{"b", 3, 0, "w"}));
  EXPECT_EQ(result.differing_bytes, 2);
  EXPECT_EQ(result.first_bytes, 14);
  EXPECT_EQ(result.second_bytes, 15);
  write_bytes(scratch / "two" / "b", "0123456789z");
  EXPECT_EQ(compare_saves(scratch / "one", scratch / "two", bits).first_difference->byte, 10);
  write_bytes(scratch / "two" / "b", "0123456789");
  write_bytes(scratch / "two" / "c", "");
  EXPECT_EQ(compare_saves(scratch / "one", scratch / "two", bits).first_difference->file, "c");
}

}  // namespace
}  // namespace bitrift::study
