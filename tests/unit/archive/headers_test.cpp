#include "archive/npy_header.h"
#include "archive/safetensors_header.h"
#include "core/number/number_format.h"
#include "unit/archive/zip_bytes.h"
#include "unit/scratch.h"

namespace bitrift::archive {
namespace {

using testing::Scratch;
using testing::write_bytes;

NpyHeader npy(const std::string& text, std::uint64_t values, unsigned version = 1) {
  const std::string bytes =
      "\x93NUMPY" + little(version, 2) + little(text.size(), version == 1 ? 2 : 4) + text;
  return read_npy_header({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()},
                         bytes.size() + values, "f.npz: a.npy");
}

TEST(NpyHeader, SaysTypeOrderAndShape) {
  const NpyHeader header = npy("{'descr': '>f8', 'fortran_order': True, 'shape': (3, 4), }      \n", 96);
  EXPECT_EQ(header.type.name, "float64");
  EXPECT_TRUE(header.type.big_endian);
  EXPECT_TRUE(header.fortran_order);
  EXPECT_EQ(header.shape, (std::vector<std::uint64_t>{3, 4}));
  EXPECT_EQ(header.bytes, 10U + 65U);
  EXPECT_TRUE(npy("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", 1).shape.empty());
  EXPECT_EQ(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (2L,), }", 16, 2).shape.size(), 1U);
  EXPECT_TRUE(npy("{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}", 16, 3).type.complex);
}

TEST(NpyHeader, TypesWithoutANumberFormatHaveAName) {
  EXPECT_EQ(npy("{'descr': '<U3', 'fortran_order': False, 'shape': (2,), }", 24).type.name, "string");
  EXPECT_EQ(npy("{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 99).type.name, "object");
  EXPECT_EQ(npy("{'descr': '<f16', 'fortran_order': False, 'shape': (2,), }", 32).type.name, "float128");
  EXPECT_EQ(
      npy("{'descr': [('a', '<f4'), (')', '|S1')], 'fortran_order': False, 'shape': (2,), }", 10).type.name,
      "compound");
}

TEST(ElementTypes, CodesOfNumberFormatsMeanTheseFormats) {
  using Names = std::vector<std::string>;
  const auto lacking = [](const auto& code_of, const auto& type_of) {
    Names without;
    for (const std::string& name : number_format_names()) {
      const auto code = code_of(name);
      if (!code) without.push_back(name);
      if (!code) continue;
      EXPECT_EQ(type_of(*code)->name, name) << *code;
      EXPECT_EQ(type_of(*code)->bytes, number_format(name)->bytes) << *code;
      EXPECT_FALSE(type_of(*code)->complex || type_of(*code)->big_endian) << *code;
    }
    EXPECT_FALSE(code_of("uint12_in_16"));
    return without;
  };
  EXPECT_EQ(lacking(npy_code, npy_type), (Names{"bfloat16", "float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz",
                                                "float8_e5m2fnuz", "float8_e8m0", "float4_e2m1"}));
  EXPECT_EQ(lacking(safetensors_code, safetensors_type), Names{"float4_e2m1"});  // it is read alone
  EXPECT_EQ(lacking(torch_code, torch_type), Names{"float4_e2m1"});
  EXPECT_EQ(torch_code("uint8"), "ByteStorage");
  EXPECT_EQ(torch_code("uint64"), "uint64");
}

TEST(NpyHeader, WhatDoesNotFitIsRefused) {
  const std::string rest = "'fortran_order': False, 'shape': (3,), }";
  EXPECT_ERROR(npy("{'descr': '<f4', " + rest, 11), bad_file, "do not fit the 11 bytes");
  EXPECT_ERROR(npy("{'descr': '<q4', " + rest, 12), bad_file, "its type is unknown");
  EXPECT_ERROR(npy("{'descr': '<f4', 'descr': '<f4', " + rest, 12), bad_file, "unknown key");
  EXPECT_ERROR(npy("{'descr': __import__('os'), " + rest, 12), bad_file, "a text is missing");
  EXPECT_ERROR(npy("{'descr': '<f4', 'fortran_order': False}", 12), bad_file, "incomplete");
  EXPECT_ERROR(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", 12), bad_file, "not a list");
  EXPECT_ERROR(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 0),
               bad_file, "do not fit");
  EXPECT_ERROR(npy("{}", 0, 4), unsupported, "version 4.0");
}

class SafetensorsTest : public ::testing::Test {
 protected:
  SafetensorsHeader read(const std::string& json, std::uint64_t values) {
    return read_bytes(little(json.size(), 8) + json + std::string(values, 'v'));
  }
  SafetensorsHeader read_bytes(const std::string& bytes) {
    write_bytes(scratch_ / "a.safetensors", bytes);
    return read_safetensors_header(BoundedFile(scratch_ / "a.safetensors"));
  }
  Scratch scratch_;
};

TEST_F(SafetensorsTest, TensorsLieBehindTheHeader) {
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("b":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"e":{"dtype":"I64","shape":[0],"data_offsets":[4,4]}}   )";
  const SafetensorsHeader header = read(json, 16);
  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_EQ(header.tensors[0].name, "b");
  EXPECT_EQ(header.tensors[2].type.name, "bfloat16");
  EXPECT_EQ(header.tensors[2].first, 8 + json.size() + 4);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

TEST_F(SafetensorsTest, LyingOffsetsAreRefused) {
  const auto one = [](const std::string& offsets, const std::string& shape = "[2]") {
    return R"({"w":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_EQ(read(one("[0,8]"), 8).tensors.size(), 1U);
  EXPECT_ERROR(read(one("[0,8]"), 4), bad_file, "fit neither its shape and type nor the 4 bytes");
  EXPECT_ERROR(read(one("[0,8]"), 9), bad_file, "1 bytes after the last tensor");
  EXPECT_ERROR(read(one("[4,12]"), 12), bad_file, "there is a gap");
  EXPECT_ERROR(read(one("[8,0]"), 8), bad_file, "fit neither");
  EXPECT_ERROR(read(one("[0,8]", "[4294967296,4294967296,4294967296]"), 8), bad_file, "fit neither");
  const std::string both = R"("dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  EXPECT_ERROR(read(R"({"a":{)" + both + R"(,"b":{)" + both + "}", 4), bad_file, "bytes are shared");
  EXPECT_ERROR(read(R"({"a":{)" + both + R"(,"a":{)" + both + "}", 4), bad_file, "two entries named a");
}

TEST_F(SafetensorsTest, HeadersOfAnotherShapeAreRefused) {
  for (const char* const json :
       {"[]", "{\"a\":1}", "{\"a\":{}}", "{\"a\":{\"b\":{}}}", "{\"a\":{\"dtype\":\"F32\"}}",
        "{\"a\":{\"dtype\":1}}", "{\"a\":null}", "{\"__metadata__\":{\"a\":[1]}}", "7"}) {
    EXPECT_ERROR(read(json, 0), bad_file, "something unexpected");
  }
  EXPECT_ERROR(read("{\"a\":", 0), bad_file, "is not valid JSON");
  EXPECT_ERROR(read(R"({"a":{"dtype":"F5","shape":[2],"data_offsets":[0,1]}})", 1), unsupported,
               "has the type F5");
}

TEST_F(SafetensorsTest, WhatTheFormatsOwnReaderSkipsIsSkipped) {
  const std::string entry = R"("dtype":"U8","shape":[2],"data_offsets":[0,2])";
  for (const std::string& extra :
       {std::string("1"), std::string("-1.5"), std::string("null"), std::string("\"t\""),
        std::string(R"({"dtype":"F64","shape":[[1],{"a":[]}],"data_offsets":null})"),
        std::string("[[1,2],{},true]")}) {
    const std::string before = R"({"w":{"x":)" + extra + "," + entry + "}}";
    const std::string behind = R"({"__metadata__":null,"w":{)" + entry + R"(,"x":)" + extra + R"(,"x":0}})";
    for (const std::string& json : {before, behind}) {
      const SafetensorsHeader header = read(json, 2);
      ASSERT_EQ(header.tensors.size(), 1U) << json;
      EXPECT_EQ(header.tensors[0].shape, std::vector<std::uint64_t>{2}) << json;
      EXPECT_TRUE(header.metadata.empty());
    }
  }
  for (const std::string& json :
       {R"({"__metadata__":1,"w":{)" + entry + "}}", R"({"__metadata__":{"a":null},"w":{)" + entry + "}}",
        R"({"w":{"shape":[null],)" + entry + "}}", R"({"w":null})" + std::string()}) {
    EXPECT_ERROR(read(json, 2), bad_file, "something unexpected");
  }
  EXPECT_ERROR(read(R"({"w":{"x":)" + std::string(200, '[') + std::string(200, ']') + "," + entry + "}}", 2),
               bad_file, "something unexpected");
}

TEST_F(SafetensorsTest, ElementsOfLessThanAByteFillTheirBytes) {
  const auto one = [](const std::string& dtype, const std::string& shape, unsigned end) {
    return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[0,)" +
           std::to_string(end) + "]}}";
  };
  EXPECT_EQ(read(one("F4", "[2,8]", 8), 8).tensors[0].type.packed_bits, 4U);
  EXPECT_EQ(read(one("F6_E2M3", "[4]", 3), 3).tensors[0].type.name, "float6_e2m3");
  EXPECT_EQ(read(one("F4", "[0]", 0), 0).tensors.size(), 1U);
  EXPECT_ERROR(read(one("F4", "[2,8]", 16), 16), bad_file, "fit neither");
  EXPECT_ERROR(read(one("F4", "[3]", 2), 2), bad_file, "fit neither");
  EXPECT_ERROR(read(one("F6_E3M2", "[2]", 2), 2), bad_file, "fit neither");
}

TEST_F(SafetensorsTest, AnEndlessHeaderIsRefusedBeforeItIsRead) {
  EXPECT_ERROR(read_bytes(little(100'000'001, 8) + "{}"), bad_file, "at most 100000000");
  EXPECT_ERROR(read_bytes(little(99'999'999, 8) + "{}"), bad_file, "lies outside of the file");
  EXPECT_ERROR(read_bytes("short"), bad_file, "lies outside of the file");
}

}  // namespace
}  // namespace bitrift::archive
