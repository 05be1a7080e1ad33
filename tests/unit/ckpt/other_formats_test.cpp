// Checkpoints that are not HDF5, made byte by byte.
#include <algorithm>
#include <numeric>

#include "archive/raw_deflate.h"
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
            "bad.npy: its shape and type do not fit the 5 bytes after its .npy header");
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

std::string text_npy(const std::string& type, const std::string& shape, const std::string& values) {
  const std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  return "\x93NUMPY\1" + little(0, 1) + little(text.size(), 2) + text + values;
}

TEST_F(OtherFormats, SingleUnicodeArraysWithAnAtAreTextsOfAnNpzFile) {
  const std::string schema = text_npy("<U2", "()", little('h', 4) + little(0x20ac, 4));
  const std::string big = text_npy(">U1", "()", std::string("\0\0\0y", 4));
  const std::string list = text_npy("<U1", "(1,)", little('h', 4));
  const std::string bytes = text_npy("|S2", "()", "hi");
  const std::string wrong = text_npy("<U1", "()", little(0xd800, 4));
  const Reader reader = read(made_zip({{"@schema.npy", schema, schema},
                                       {"@big.npy", big, big},
                                       {"@list.npy", list, list},
                                       {"@bytes.npy", bytes, bytes},
                                       {"@wrong.npy", wrong, wrong},
                                       {"@note", "text", "text"},
                                       {"schema.npy", schema, schema}}));
  EXPECT_EQ(reader.attributes(), (std::map<std::string, std::string>{{"schema", "h€"}, {"big", "y"}}));
  std::vector<std::string> paths;
  for (const TensorInfo& tensor : reader.tensors()) paths.push_back(tensor.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"@bytes", "@list", "@note", "@wrong", "schema"}));
  std::vector<std::string> structures;
  for (const ByteExtent& extent : reader.container().metadata()) structures.push_back(extent.structure);
  EXPECT_NE(std::find(structures.begin(), structures.end(), "text @schema"), structures.end());
}

TEST_F(OtherFormats, TextsOfAllArraysTogetherTakeLittleMemory) {
  // Each is 40 MiB of zeros in 40 kB: the first is read as a text, the second is not.
  const std::uint64_t characters = std::uint64_t{10} << 20U;
  const std::string array =
      text_npy("<U" + std::to_string(characters), "()", std::string(4 * characters, '\0'));
  const auto packed =
      archive::deflate_raw({reinterpret_cast<const std::uint8_t*>(array.data()), array.size()}, array.size());
  const std::string stored(packed.begin(), packed.end());
  const Reader reader = read(made_zip({{"@a.npy", stored, array, 8}, {"@b.npy", stored, array, 8}}));
  EXPECT_EQ(reader.attributes().size(), 1U);
  EXPECT_EQ(reader.tensors().size(), 1U);
}

TEST_F(OtherFormats, WhoHoldsAFileForWritingIsWaitedFor) {
  write_bytes(scratch_ / "f", made_zip({}));
  const FileDescriptor writer = open_file(scratch_ / "f", 2);
  lock_exclusive(writer, scratch_ / "f");
  EXPECT_ERROR(Reader(scratch_ / "f"), busy, "another program has it open for writing");
}

}  // namespace
}  // namespace bitrift::ckpt
