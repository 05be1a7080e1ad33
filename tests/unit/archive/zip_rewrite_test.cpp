#include "archive/zip_rewrite.h"

#include "archive/raw_deflate.h"
#include "unit/archive/zip_bytes.h"
#include "unit/scratch.h"

namespace bitrift::archive {
namespace {

using testing::bytes_of;
using testing::Scratch;
using testing::write_bytes;

std::vector<std::uint8_t> as_bytes(const std::string& text) { return {text.begin(), text.end()}; }

/// What deflate cannot make short: the bytes 0 to 99.
const std::string varied = [] {
  std::string text;
  for (char i = 0; i < 100; ++i) text += i;
  return text;
}();

std::string deflated(const std::string& text) {
  const auto packed = deflate_raw(as_bytes(text), 0);
  return {packed.begin(), packed.end()};
}

void write_changes(const std::filesystem::path& path,
                   const std::map<std::uint64_t, std::vector<std::uint8_t>>& changes) {
  std::string bytes = bytes_of(path);
  for (const auto& [offset, piece] : changes) {
    EXPECT_LE(offset, bytes.size());
    if (offset == bytes.size()) {
      bytes.append(piece.begin(), piece.end());
    } else {
      EXPECT_LE(offset + piece.size(), bytes.size());
      std::copy(piece.begin(), piece.end(), bytes.begin() + static_cast<std::ptrdiff_t>(offset));
    }
  }
  write_bytes(path, bytes);
}

/// Python's zipfile, which checks every CRC-32, finds these contents.
::testing::AssertionResult python_reads(const std::filesystem::path& path, const std::string& contents) {
  const bool read = testing::python(path,
                                    "import zipfile\n"
                                    "z = zipfile.ZipFile(path)\n"
                                    "assert z.testzip() is None\n"
                                    "found = {n: z.read(n) for n in z.namelist()}\n"
                                    "assert found == " +
                                        contents + ", found\n");
  return read ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << "see stderr";
}

class ZipRewriteTest : public ::testing::TestWithParam<bool> {
 protected:
  void write(const std::vector<MadeMember>& members) { write_bytes(path_, made_zip(members)); }
  MadeMember stored(const std::string& name, const std::string& text) {
    return {name, text, text, 0, GetParam()};
  }
  MadeMember packed(const std::string& name, const std::string& text) {
    return {name, deflated(text), text, 8, GetParam()};
  }
  Scratch scratch_;
  std::filesystem::path path_ = scratch_ / "a.zip";
};

TEST_P(ZipRewriteTest, TheSumOfAChangedStoredMemberFollows) {
  write({stored("a", "hello"), stored("b", "world")});
  const BoundedFile file(path_);
  const ZipDirectory zip(file);
  ZipRewrite rewrite(file, zip);
  const std::uint64_t at = zip.find("b")->data + 1;
  const std::uint8_t difference = 'o' ^ 'u';
  rewrite.change(at, {&difference, 1});
  auto changes = rewrite.finish();
  EXPECT_EQ(changes.size(), 2U);  // in the header or the descriptor, and in the central directory
  changes[at] = {'u'};
  write_changes(path_, changes);
  EXPECT_TRUE(python_reads(path_, "{'a': b'hello', 'b': b'wurld'}"));
}

TEST_P(ZipRewriteTest, ASumThatWasNotComputedStaysZero) {
  const std::string sums_to_zero = "\x9d\x0a\xd9\x6d";
  const auto without = [](MadeMember one) { return one.summed = false, one; };
  const auto places_that_change = [&](const std::vector<MadeMember>& members) {
    write(members);
    const BoundedFile file(path_);
    const ZipDirectory zip(file);
    ZipRewrite rewrite(file, zip);
    const std::uint8_t difference = 1;
    for (const std::uint64_t at : {0, 2}) rewrite.change(zip.find("a")->data + at, {&difference, 1});
    return rewrite.finish().size();
  };
  EXPECT_EQ(places_that_change({stored("a", "hello"), stored("b", "world")}), 2U);
  EXPECT_EQ(places_that_change({stored("a", "hello"), without(stored("b", "world"))}), 2U);
  EXPECT_EQ(places_that_change({without(stored("a", "hello")), stored("b", "world")}), 0U);
  EXPECT_EQ(places_that_change({without(stored("a", "hello")), without(stored("b", "world"))}), 0U);
  // 0 is the sum of these four bytes: whether it was computed shows in the other members.
  EXPECT_EQ(places_that_change({stored("a", sums_to_zero)}), 2U);
  EXPECT_EQ(places_that_change({stored("a", sums_to_zero), without(stored("b", ""))}), 2U);
  EXPECT_EQ(places_that_change({stored("a", sums_to_zero), stored("b", "world"), without(stored("c", "!"))}),
            2U);
  EXPECT_EQ(places_that_change({stored("a", sums_to_zero), without(stored("b", "world"))}), 0U);
}

TEST_P(ZipRewriteTest, PaddingStaysAtTheEnd) {
  write_bytes(path_, made_zip({packed("a", std::string(100, 'a')), stored("b", "world")}) + "padding");
  const BoundedFile file(path_);
  const ZipDirectory zip(file);
  ZipRewrite rewrite(file, zip);
  rewrite.replace(zip.find("a")->data, as_bytes(deflated(varied)), crc_of(varied));
  write_changes(path_, rewrite.finish());
  EXPECT_TRUE(bytes_of(path_).ends_with("padding"));
  EXPECT_TRUE(python_reads(path_, "{'a': bytes(range(100)), 'b': b'world'}"));
}

TEST_P(ZipRewriteTest, AMemberThatShrinksStaysWhereItIs) {
  write({packed("a", "a long and varied text, 0123456789"), stored("b", "world")});
  const BoundedFile file(path_);
  const ZipDirectory zip(file);
  ZipRewrite rewrite(file, zip);
  rewrite.replace(zip.find("a")->data, as_bytes(deflated("short")), crc_of("short"));
  const auto changes = rewrite.finish();
  EXPECT_LT(changes.rbegin()->first, file.size());
  write_changes(path_, changes);
  // The size of the contents is none of what can change: an array keeps its shape.
  EXPECT_EQ(ZipDirectory(BoundedFile(path_)).find("b")->data, zip.find("b")->data);
}

TEST_P(ZipRewriteTest, AMemberThatGrowsMovesBehindTheOthers) {
  write({packed("a", std::string(100, 'a')), stored("b", "world"), packed("c", std::string(100, 'c'))});
  const BoundedFile file(path_);
  const ZipDirectory zip(file);
  ZipRewrite rewrite(file, zip);
  for (const char* const name : {"a", "c"}) {
    rewrite.replace(zip.find(name)->data, as_bytes(deflated(varied)), crc_of(varied));
  }
  const std::uint8_t difference = 'w' ^ 'W';
  rewrite.change(zip.find("b")->data, {&difference, 1});
  auto changes = rewrite.finish();
  EXPECT_EQ(changes.rbegin()->first, file.size());
  changes[zip.find("b")->data] = {'W'};
  write_changes(path_, changes);
  EXPECT_TRUE(python_reads(path_, "{'a': bytes(range(100)), 'b': b'World', 'c': bytes(range(100))}"));
}

TEST_P(ZipRewriteTest, BytesOutsideOfStoredMembersChangeNothingElse) {
  write({packed("a", "aaaaaaaaaa"), stored("b", "world")});
  const BoundedFile file(path_);
  const ZipDirectory zip(file);
  ZipRewrite rewrite(file, zip);
  const std::uint8_t difference = 1;
  for (const std::uint64_t at :
       {std::uint64_t{0}, zip.find("a")->data, zip.tail().central, file.size() - 1}) {
    rewrite.change(at, {&difference, 1});
  }
  EXPECT_TRUE(rewrite.finish().empty());
}

INSTANTIATE_TEST_SUITE_P(Descriptors, ZipRewriteTest, ::testing::Bool());

TEST(ZipRewrite, Zip64RecordsFollow) {
  const Scratch scratch;
  const auto path = scratch / "a.zip";
  // Writes the ZIP64 records that archives of 65,535 members have.
  ASSERT_TRUE(testing::python(path,
                              "import zipfile\n"
                              "with zipfile.ZipFile(path, 'w') as z:\n"
                              "  z.writestr('a', b'a' * 100, zipfile.ZIP_DEFLATED)\n"
                              "  for i in range(65536): z.writestr(str(i), b'')\n"));
  const BoundedFile file(path);
  const ZipDirectory zip(file);
  EXPECT_NE(zip.tail().end64_field.bytes, 0U);
  ZipRewrite rewrite(file, zip);
  rewrite.replace(zip.find("a")->data, as_bytes(deflated(varied)), crc_of(varied));
  const auto changes = rewrite.finish();
  EXPECT_EQ(changes.rbegin()->first, file.size());
  write_changes(path, changes);
  EXPECT_EQ(ZipDirectory(BoundedFile(path)).members().size(), 65537U);
  EXPECT_TRUE(testing::python(path,
                              "import zipfile\n"
                              "z = zipfile.ZipFile(path)\n"
                              "assert z.read('a') == bytes(range(100)) and len(z.namelist()) == 65537\n"));
}

}  // namespace
}  // namespace bitrift::archive
