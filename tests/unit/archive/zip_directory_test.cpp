#include "archive/zip_directory.h"

#include "unit/archive/zip_bytes.h"
#include "unit/scratch.h"

namespace bitrift::archive {
namespace {

using testing::Scratch;
using testing::write_bytes;

class ZipDirectoryTest : public ::testing::Test {
 protected:
  ZipDirectory read(const std::string& bytes) {
    write_bytes(scratch_ / "a.zip", bytes);
    file_ = std::make_unique<BoundedFile>(scratch_ / "a.zip");
    return ZipDirectory(*file_);
  }
  Scratch scratch_;
  std::unique_ptr<BoundedFile> file_;
};

TEST_F(ZipDirectoryTest, StoredMembersLieBehindTheirHeaders) {
  const ZipDirectory zip = read(made_zip({{"a", "xyz", "xyz"}, {"bb", "", ""}}));
  ASSERT_EQ(zip.members().size(), 2U);
  const ZipMember& first = zip.members()[0];
  EXPECT_EQ(first.data, 31U);
  EXPECT_EQ(first.end, 34U);
  EXPECT_EQ(first.crc32, 0xeb8eba67U);  // zlib.crc32(b"xyz")
  EXPECT_FALSE(first.deflated);
  EXPECT_EQ(first.said.size(), 2U);
  EXPECT_EQ(zip.find("bb"), &zip.members()[1]);
  EXPECT_EQ(zip.find("c"), nullptr);
  EXPECT_EQ(zip.tail().central, 34U + 32U);
}

TEST_F(ZipDirectoryTest, ADataDescriptorBelongsToItsMember) {
  const ZipDirectory zip = read(made_zip({{"a", "xyz", "xyz", 0, true}, {"b", "1", "1", 0, true}}));
  EXPECT_EQ(zip.members()[0].descriptor_bytes(), 16U);
  EXPECT_EQ(zip.members()[0].end, zip.members()[1].header);
  EXPECT_EQ(zip.members()[0].said[0].crc32.offset, 38U);
}

TEST_F(ZipDirectoryTest, Zip64ArchivesOfPythonAreRead) {
  ASSERT_TRUE(testing::python(scratch_ / "p.zip",
                              "import zipfile\n"
                              "with zipfile.ZipFile(path, 'w') as z:\n"
                              "  with z.open('big', 'w', force_zip64=True) as f: f.write(b'abc')\n"));
  const ZipDirectory zip = read(testing::bytes_of(scratch_ / "p.zip"));
  EXPECT_EQ(zip.members().at(0).stored_bytes, 3U);
  EXPECT_EQ(zip.members()[0].said[0].stored_bytes.bytes, 8U);
}

TEST_F(ZipDirectoryTest, AnArchiveWithoutMembersIsSound) {
  EXPECT_TRUE(read(made_zip({})).members().empty());
}

TEST_F(ZipDirectoryTest, WhatFollowsTheEndIsPadding) {
  const std::string whole = made_zip({{"a", "xyz", "xyz"}});
  for (const std::string& padding : {std::string("x"), std::string(10, '\0'), std::string(65535, 'x')}) {
    const ZipDirectory zip = read(whole + padding);
    EXPECT_EQ(zip.members().size(), 1U);
    EXPECT_EQ(zip.tail().end, whole.size());
  }
  EXPECT_ERROR(read(whole + std::string(65536, 'x')), bad_file, "the zip archive has no end");
  // A comment that looks like an end is taken for one, as by other readers.
  std::string commented = whole;
  commented[whole.size() - 2] = 22;
  EXPECT_ERROR(read(commented + "PK\5\6" + std::string(18, '\0')), bad_file, "the central directory");
  commented[whole.size() - 2] = 5;
  EXPECT_EQ(read(commented + "hello").tail().end, whole.size() + 5);
  EXPECT_ERROR(read(commented + "hell"), bad_file, "the zip archive has no end");
}

TEST_F(ZipDirectoryTest, ATruncatedArchiveIsRefused) {
  const std::string whole = made_zip({{"a", "xyz", "xyz"}});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_ERROR(read(whole.substr(0, size)), bad_file, "a.zip: ");
  }
}

TEST_F(ZipDirectoryTest, EveryFlippedBitIsRefusedOrChangesWhatItSays) {
  const std::string whole = made_zip({{"a", "xyz", "xyz"}, {"b", "12", "12", 0, true}});
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    try {
      const ZipDirectory zip = read(damaged);
      for (const ZipMember& member : zip.members()) {
        EXPECT_LE(member.end, whole.size());
        EXPECT_LE(member.header, member.data);
      }
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == ErrorCode::bad_file || error.code() == ErrorCode::unsupported) << bit;
    }
  }
}

TEST_F(ZipDirectoryTest, MembersThatShareBytesAreRefused) {
  const std::string inner = made_zip({{"a", "xyz", "xyz"}});
  MadeMember outer{"o", inner, inner};
  MadeMember second{"a", "xyz", "xyz"};
  second.claimed_header = 31;  // the header inside of the first member's data
  EXPECT_ERROR(read(made_zip({outer, second})), bad_file, "members o and a of the zip archive share");
}

TEST_F(ZipDirectoryTest, ASizeBeyondTheFileIsRefused) {
  MadeMember member{"a", "xyz", "xyz"};
  member.claimed_stored = 1'000'000;
  EXPECT_ERROR(read(made_zip({member})), bad_file, "its 1000000 bytes at byte 31 lie outside");
}

TEST_F(ZipDirectoryTest, TwoMembersOfOneNameAreRefused) {
  EXPECT_ERROR(read(made_zip({{"a", "1", "1"}, {"a", "2", "2"}})), bad_file,
               "two members of the zip archive are named a");
}

TEST_F(ZipDirectoryTest, APlaceOutsideOfTheMembersIsRefused) {
  MadeMember member{"a", "xyz", "xyz"};
  member.claimed_header = 0x7fffffff;
  EXPECT_ERROR(read(made_zip({member})), bad_file, "its header at byte 2147483647 lies outside");
}

TEST_F(ZipDirectoryTest, ACentralDirectoryThatIsElsewhereIsRefused) {
  std::string bytes = made_zip({{"a", "xyz", "xyz"}});
  bytes[bytes.size() - 6] = 0;
  EXPECT_ERROR(read(bytes), bad_file, "the central directory of the zip archive should be 47 bytes");
}

TEST_F(ZipDirectoryTest, AnUnknownMethodIsAProblemOfItsMember) {
  MadeMember member{"a", "xyz", "xyz"};
  member.method = 12;
  EXPECT_EQ(read(made_zip({member})).members()[0].problem,
            "it is compressed by method 12 of zip; only stored and deflated are read");
}

}  // namespace
}  // namespace bitrift::archive
