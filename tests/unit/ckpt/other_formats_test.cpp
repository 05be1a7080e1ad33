// Checkpoints that are not HDF5, made byte by byte.
#include <numeric>

#include "ckpt/reader.h"
#include "unit/archive/zip_bytes.h"
#include "unit/scratch.h"

namespace bitrift::ckpt {
namespace {

using archive::little;
using archive::made_zip;
using testing::Scratch;
using testing::write_bytes;

/// An array of the numbers 0, 1, 2, ... as bytes.
std::string counting_npy(const std::string& shape, unsigned elements, bool fortran = false) {
  const std::string text = std::string("{'descr': '|u1', 'fortran_order': ") + (fortran ? "True" : "False") +
                           ", 'shape': " + shape + ", }";
  std::string values;
  for (unsigned i = 0; i < elements; ++i) values += static_cast<char>(i);
  return "\x93NUMPY\1" + little(0, 1) + little(text.size(), 2) + text + values;
}

class OtherFormats : public ::testing::Test {
 protected:
  Reader read(const std::string& bytes) {
    write_bytes(scratch_ / "f", bytes);
    return Reader(scratch_ / "f");
  }
  Reader read_npz(const std::string& name, const std::string& array) {
    return read(made_zip({{name, array, array}}));
  }
  static std::vector<std::uint8_t> all(const Reader& reader, const std::string& path) {
    std::vector<std::uint8_t> bytes(reader.find(path)->elements());
    reader.read(*reader.find(path), bytes.data(), bytes.size());
    return bytes;
  }
  Scratch scratch_;
};

TEST_F(OtherFormats, AnArrayInFortranOrderIsReadRowByRow) {
  const Reader reader = read_npz("a.npy", counting_npy("(2, 3)", 6, true));
  EXPECT_EQ(reader.format(), FileFormat::npz);
  EXPECT_EQ(all(reader, "a"), (std::vector<std::uint8_t>{0, 2, 4, 1, 3, 5}));
  std::uint8_t one = 9;
  reader.read_elements(*reader.find("a"), 4, 1, &one);
  EXPECT_EQ(one, 3);
  EXPECT_FALSE(reader.find("a")->offset);
}

TEST_F(OtherFormats, ElementsFarApartAreReadOneByOne) {
  // Rows of 300 bytes: 64 times what is wanted is not enough to read them all.
  const Reader reader = read_npz("a.npy", counting_npy("(300, 2)", 600, true));
  const auto values = all(reader, "a");
  EXPECT_EQ(values[1], 300 % 256);
  EXPECT_EQ(values[2], 1);
  std::uint8_t pair[2] = {};
  reader.read_elements(*reader.find("a"), 0, 2, pair);
  EXPECT_EQ(pair[1], 300 % 256);
}

TEST_F(OtherFormats, MetadataAndValuesAreTheWholeFile) {
  const std::string bytes = made_zip(
      {{"a.npy", counting_npy("(5,)", 5), counting_npy("(5,)", 5), 0, true}, {"note", "text", "text"}});
  const Reader reader = read(bytes);
  std::uint64_t end = 0, count = 0;
  std::vector<std::string> names;
  for (const ByteExtent& extent : reader.container().metadata()) {
    EXPECT_GE(extent.first, end);
    end = extent.end;
    count += extent.end - extent.first;
    names.push_back(extent.structure);
  }
  EXPECT_EQ(count, bytes.size() - 5);
  EXPECT_EQ(names, (std::vector<std::string>{"local header of a.npy", ".npy header of /a",
                                             "data descriptor of a.npy", "local header of note",
                                             "member note", "central directory", "end of the archive"}));
}

TEST_F(OtherFormats, AnArrayThatCannotBeReadIsListedWithTheReason) {
  const std::string good = counting_npy("(5,)", 5), bad = counting_npy("(6,)", 5);
  const Reader reader = read(made_zip({{"good.npy", good, good}, {"bad.npy", bad, bad}}));
  EXPECT_EQ(reader.find("good")->refusal, "");
  EXPECT_EQ(reader.find("bad")->dtype, "unreadable");
  EXPECT_EQ(reader.find("bad")->refusal,
            "bad.npy: its shape and type do not fit the 5 bytes behind its .npy header");
}

TEST_F(OtherFormats, SafetensorsTextsAreAttributes) {
  const std::string json =
      R"({"__metadata__":{"epoch":"3"},"fc.weight":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  const Reader reader = read(little(json.size(), 8) + json + "ab");
  EXPECT_EQ(reader.format(), FileFormat::safetensors);
  EXPECT_EQ(reader.attribute("epoch"), "3");
  EXPECT_EQ(reader.find("fc.weight")->role, "weight");
  EXPECT_EQ(reader.find("fc.weight")->offset, 8 + json.size());
  EXPECT_EQ(all(reader, "fc.weight"), (std::vector<std::uint8_t>{'a', 'b'}));
}

TEST_F(OtherFormats, WhoHoldsAFileForWritingIsWaitedFor) {
  write_bytes(scratch_ / "f", made_zip({}));
  const FileDescriptor writer = open_file(scratch_ / "f", 2);
  lock_exclusive(writer, scratch_ / "f");
  EXPECT_ERROR(Reader(scratch_ / "f"), busy, "another program has it open for writing");
}

}  // namespace
}  // namespace bitrift::ckpt
