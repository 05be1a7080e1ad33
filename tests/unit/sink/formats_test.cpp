#include <algorithm>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ckpt/reader.h"
#include "sink/direct_sink.h"
#include "sink/format/image_of.h"
#include "sink/format/writer.h"
#include "sink/plain_sink.h"
#include "sink/shared_sink.h"
#include "support.h"
#include "unit/scratch.h"

namespace bitrift::ckpt::sink_test {
namespace {

using testing::bytes_of;
using testing::Scratch;

std::vector<WriteFormat> fixed_formats() {
  std::vector<WriteFormat> fixed = all_formats();
  std::erase_if(fixed, is_compressed);
  return fixed;
}

TEST(Formats, FollowFromTheExtension) {
  const std::map<const char*, WriteFormat> expected = {{"a.h5", WriteFormat::hdf5},
                                                       {"a.hdf5", WriteFormat::hdf5},
                                                       {"a", WriteFormat::hdf5},
                                                       {"npz", WriteFormat::hdf5},
                                                       {"a.npz.old", WriteFormat::hdf5},
                                                       {"a.npz", WriteFormat::npz},
                                                       {"b.c/a.pt", WriteFormat::pytorch},
                                                       {"a.pth", WriteFormat::pytorch},
                                                       {"a.safetensors", WriteFormat::safetensors}};
  for (const auto& [name, format] : expected) EXPECT_EQ(format_of_name(name), format) << name;
}

TEST(Formats, WhatOneCannotHoldIsRefusedByNameAndLeavesNothing) {
  const Scratch scratch;
  const std::map<WriteFormat, std::pair<const char*, const char*>> refused = {
      {WriteFormat::hdf5,
       {"float8_e4m3fn", "b/w: hdf5 cannot hold float8_e4m3fn; choose safetensors or pytorch"}},
      {WriteFormat::hdf5_deflate, {"float8_e4m3fn", "choose safetensors or pytorch"}},
      {WriteFormat::npz, {"bfloat16", "b/w: npz cannot hold bfloat16; choose hdf5, safetensors or pytorch"}},
      {WriteFormat::npz_deflate, {"float8_e5m2", "b/w: npz-deflate cannot hold float8_e5m2; choose hdf5"}},
      {WriteFormat::safetensors, {"uint12_in_16", "b/w: safetensors cannot hold uint12_in_16; choose hdf5"}},
      {WriteFormat::pytorch, {"int17_in_32", "b/w: pytorch cannot hold int17_in_32; choose hdf5"}}};
  for (const auto& [format, what] : refused) {
    const std::vector<TensorMeta> metas = {meta_of("a", "float32", {2}), meta_of("b/w", what.first, {2})};
    EXPECT_ERROR(Writer(scratch / "c", metas, {}, format), bad_input, what.second);
  }
  EXPECT_EQ(scratch.entries(), 0U);
}

TEST(Formats, NamesThatOneCannotHaveAreRefused) {
  const Scratch scratch;
  const std::vector<TensorMeta> one = {meta_of("spec/w", "int8", {})};
  EXPECT_ERROR(Writer(scratch / "c", one, {{"spec", "{}"}}, WriteFormat::pytorch), bad_input, "same name");
  EXPECT_ERROR(Writer(scratch / "c", {meta_of("__metadata__", "int8", {})}, {}, WriteFormat::safetensors),
               bad_input, "__metadata__: safetensors files have no tensor of this name");
  for (const WriteFormat format : {WriteFormat::safetensors, WriteFormat::npz, WriteFormat::npz_deflate})
    EXPECT_ERROR(Writer(scratch / "c", one, {{"a", "\xff"}}, format), bad_input, "UTF-8");
  for (const WriteFormat format : all_formats()) {
    EXPECT_ERROR(Writer(scratch / "c", {}, {}, format), bad_input, "at least one tensor");
    EXPECT_ERROR(Writer(scratch / "c", {one[0], one[0]}, {}, format), bad_input, "is given twice");
  }
  EXPECT_EQ(scratch.entries(), 0U);
}

TEST(Formats, CompressedOnesTakeTensorsInPathOrderOnly) {
  const Scratch scratch;
  const std::vector<TensorMeta> metas = {meta_of("a", "int8", {2}), meta_of("b", "int8", {2})};
  for (const WriteFormat format : {WriteFormat::hdf5_deflate, WriteFormat::npz_deflate}) {
    EXPECT_ERROR(static_cast<void>(image_of(format, metas, {})), internal, "have no image");
    Writer writer(scratch / "c", metas, {}, format);
    EXPECT_ERROR(writer.tensor("b", "xy", 2), internal, "b, 2 bytes, is not the tensor that comes next");
    EXPECT_ERROR(writer.tensor("a", "xyz", 3), internal, "a, 3 bytes");
    writer.tensor("a", "xy", 2);
    EXPECT_ERROR(writer.commit(), internal, "b: was never written");
  }
  EXPECT_EQ(scratch.entries(), 0U);
}

TEST(Formats, EveryByteOfAnImageBelongsToOnePart) {
  for (const WriteFormat format : fixed_formats()) {
    if (format == WriteFormat::hdf5) continue;  // HDF5 leaves room between its structures
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const Checkpoint made = random_checkpoint(seed, kMostOfFormat, format);
      const Image image = image_of(format, made.metas, made.attributes);
      std::uint64_t end = 0;
      for (const auto& [offset, bytes] : parts_of(image)) {
        ASSERT_EQ(offset, end) << name_of(format) << " " << seed;
        end = offset + bytes;
      }
      ASSERT_EQ(end, image.file_bytes) << name_of(format) << " " << seed;
    }
  }
}

TEST(Formats, TensorsAreAlignedForTheirElements) {
  for (const WriteFormat format : {WriteFormat::safetensors, WriteFormat::npz, WriteFormat::pytorch}) {
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
      const Checkpoint made = random_checkpoint(seed, kMostOfFormat, format);
      const Image image = image_of(format, made.metas, made.attributes);
      for (const TensorMeta& meta : made.metas) {
        const std::uint64_t unit = format == WriteFormat::safetensors ? meta.format.bytes : 64;
        ASSERT_EQ(image.find(meta.path)->offset % unit, 0U) << name_of(format) << " " << meta.path;
      }
    }
  }
}

TEST(Formats, OurReaderFindsEveryValueAndAttribute) {
  const Scratch scratch;
  for (const WriteFormat format : all_formats()) {
    if (format == WriteFormat::raw) continue;
    for (std::uint64_t seed = 600; seed < 615; ++seed) {
      const Checkpoint made = random_checkpoint(seed, kMostOfFormat, format);
      save_by_writer(made, format, scratch / "c");
      const Reader reader(scratch / "c");
      ASSERT_EQ(reader.attributes(), made.attributes) << name_of(format) << " " << seed;
      std::size_t others = 0;
      for (const TensorInfo& tensor : reader.tensors()) others += tensor.role == "checksum" ? 1 : 0;
      ASSERT_EQ(reader.tensors().size(), made.metas.size() + others);
      for (const TensorMeta& meta : made.metas) {
        const TensorInfo* const tensor = reader.find(meta.path);
        ASSERT_NE(tensor, nullptr) << name_of(format) << " " << seed << " " << meta.path;
        EXPECT_EQ(tensor->format, meta.format) << name_of(format) << " " << meta.path;
        EXPECT_EQ(tensor->shape, meta.shape);
        std::vector<std::uint8_t> bytes(meta.bytes());
        reader.read(*tensor, bytes.data(), bytes.size());
        ASSERT_EQ(bytes, content(meta)) << name_of(format) << " " << seed << " " << meta.path;
      }
    }
  }
}

TEST(Formats, RawIsTheBytesOfTheTensorsInPathOrder) {
  const Scratch scratch;
  const Checkpoint made{
      {meta_of("b", "int16", {3}), meta_of("a/z", "float64", {2, 2}), meta_of("c", "int8", {0})},
      {{"spec", "{}"}}};
  save_by_writer(made, WriteFormat::raw, scratch / "c");
  std::string expected;
  for (const std::size_t i : {1U, 0U}) {
    const std::vector<std::uint8_t> bytes = content(made.metas[i]);
    expected.append(bytes.begin(), bytes.end());
  }
  EXPECT_EQ(bytes_of(scratch / "c"), expected);
}

TEST(Formats, TheSameTensorsGiveTheSameBytesUnderEveryNameInAnyOrderThroughEverySink) {
  const Scratch scratch;
  for (const WriteFormat format : all_formats()) {
    for (std::uint64_t seed = 700; seed < 710; ++seed) {
      const Checkpoint made = random_checkpoint(seed, kMostOfFormat, format);
      save_by_writer(made, format, scratch / "first");
      const std::string expected = bytes_of(scratch / "first");
      save_by_writer(made, format, scratch / "a much longer name");
      ASSERT_EQ(bytes_of(scratch / "a much longer name"), expected) << name_of(format) << " " << seed;
      if (is_compressed(format)) continue;
      Checkpoint reversed = made;
      std::reverse(reversed.metas.begin(), reversed.metas.end());
      const Image image = image_of(format, reversed.metas, made.attributes);
      PlainSink plain(scratch / "plain");
      save(reversed, image, plain);
      ASSERT_EQ(bytes_of(scratch / "plain"), expected) << name_of(format) << " " << seed;

      DirectSink direct(scratch / "direct");
      save(made, image, direct);
      ASSERT_EQ(bytes_of(scratch / "direct"), expected) << name_of(format) << " " << seed;

      SharedSink first(scratch / "shared");
      ImageWriter one(image, first);
      SharedSink second(scratch / "shared", first.temporary());
      ImageWriter other(image, second);
      one.fixed();
      give(one, made, 0, 2);
      give(other, made, 1, 2);
      one.checksums();
      other.checksums();
      second.commit();
      first.commit();
      ASSERT_EQ(bytes_of(scratch / "shared"), expected) << name_of(format) << " " << seed;
    }
  }
}

TEST(Formats, ACopyInMemoryGivesTheSameFile) {
  const Scratch scratch;
  for (const WriteFormat format : all_formats()) {
    const Checkpoint made = random_checkpoint(42, kMostOfFormat, format);
    save_by_writer(made, format, scratch / "c");
    const Image image =
        image_of(is_compressed(format) ? WriteFormat::raw : format, made.metas, made.attributes);
    std::vector<std::uint8_t> copy(image.file_bytes, 0xee);
    for (const TensorMeta& meta : made.metas) {
      const std::vector<std::uint8_t> bytes = content(meta);
      std::copy(bytes.begin(), bytes.end(),
                copy.begin() + static_cast<std::ptrdiff_t>(image.find(meta.path)->offset));
    }
    write_copy(scratch / "copy", made.metas, made.attributes, format, image, copy.data());
    EXPECT_EQ(bytes_of(scratch / "copy"), bytes_of(scratch / "c")) << name_of(format);
  }
}

}  // namespace
}  // namespace bitrift::ckpt::sink_test
