#include <algorithm>
#include <fstream>
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
using testing::python;
using testing::Scratch;

constexpr std::uint64_t kMostTensors = 60;

TensorMeta meta_of(const char* path, const char* numbers, std::vector<std::uint64_t> shape) {
  return {path, number_format(numbers).value(), std::move(shape)};
}

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
      const Checkpoint made = random_checkpoint(seed, kMostTensors, format);
      const Image image = image_of(format, made.metas, made.attributes);
      std::multimap<std::uint64_t, std::uint64_t> parts;  // offset to size
      const auto add = [&](std::uint64_t offset, std::uint64_t bytes) {
        if (bytes > 0) parts.emplace(offset, bytes);
      };
      for (const Image::Piece& piece : image.pieces) add(piece.offset, piece.bytes.size());
      for (const Image::Tensor& tensor : image.tensors) {
        add(tensor.offset, tensor.bytes);
        for (const std::uint64_t at : tensor.checksums_at) add(at, 4);
      }
      std::uint64_t end = 0;
      for (const auto& [offset, bytes] : parts) {
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
      const Checkpoint made = random_checkpoint(seed, kMostTensors, format);
      const Image image = image_of(format, made.metas, made.attributes);
      for (const TensorMeta& meta : made.metas) {
        const std::uint64_t unit = format == WriteFormat::safetensors ? meta.format.bytes : 64;
        ASSERT_EQ(image.find(meta.path)->offset % unit, 0U) << name_of(format) << " " << meta.path;
      }
    }
  }
}

/// A file for Python: format, tensors with type, shape and path, and the lengths of the attributes.
void describe(std::ofstream& out, const std::string& file, WriteFormat format, const Checkpoint& made) {
  out << "file\t" << file << "\t" << name_of(format) << "\n";
  for (const TensorMeta& meta : made.metas) {
    out << "tensor\t" << meta.format.name() << "\t";
    for (const std::uint64_t size : meta.shape) out << size << ",";
    out << "\t" << meta.path << "\n";
  }
  for (const auto& [name, text] : made.attributes)
    out << "attribute\t" << name << "\t" << text.size() << "\n";
}

constexpr const char* kNativeReaders = R"(
import os, torch
from safetensors import safe_open

folder = os.path.dirname(path)

def content(path, size):
    i = np.arange(size, dtype=np.int64)
    return ((7 * i + i // 256 + len(path.encode())) & 255).astype(np.uint8).tobytes()

def flat(tree, prefix=''):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, prefix + key + '/')
        elif not isinstance(value, str):
            yield prefix + key, value

def raw(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b''

def of_torch(tensor):
    return str(tensor.dtype).removeprefix('torch.'), tuple(tensor.shape), raw(tensor)

def of_numpy(array):
    return array.dtype.name, array.shape, array.tobytes()

def read_safetensors(file):
    with safe_open(file, 'pt') as f:
        return {key: of_torch(f.get_tensor(key)) for key in f.keys()}, f.metadata() or {}

def read_npz(file):
    with np.load(file, allow_pickle=False) as f:
        arrays = {name: f[name] for name in f.files}
    texts = {name[1:]: a.item() for name, a in arrays.items() if name[0] == '@'}
    return {name: of_numpy(a) for name, a in arrays.items() if name[0] != '@'}, texts

def read_pytorch(file):
    tree = torch.load(file, weights_only=True)
    mapped = dict(flat(torch.load(file, weights_only=True, mmap=True)))
    found = {name: of_torch(tensor) for name, tensor in flat(tree)}
    assert {name: of_torch(tensor) for name, tensor in mapped.items()} == found
    assert all(tensor.is_contiguous() and not tensor.requires_grad for tensor in mapped.values())
    return found, {name: text for name, text in tree.items() if isinstance(text, str)}

def read_hdf5(file):
    found = {}
    with h5py.File(file) as f:
        def visit(name, item):
            if isinstance(item, h5py.Dataset) and not name.startswith('checksum/'):
                stored = np.empty(item.shape, f'V{item.id.get_type().get_size()}')
                if item.size:
                    item.id.read(h5py.h5s.ALL, h5py.h5s.ALL, stored, item.id.get_type())
                found[name] = (None, item.shape, stored.tobytes())
                chunked = len(item.shape) > 0 and len(stored.tobytes()) >= 4096
                assert (item.compression, item.compression_opts, item.shuffle) == (('gzip', 4, True) if chunked else (None, None, False)), name
        f.visititems(visit)
        return found, dict(f.attrs)

readers = {'safetensors': read_safetensors, 'npz': read_npz, 'npz-deflate': read_npz, 'pytorch': read_pytorch, 'hdf5-deflate': read_hdf5}
checked = 0

def check(file, kind, wanted, texts):
    global checked
    found, attributes = readers[kind](os.path.join(folder, file))
    assert set(found) == set(wanted), (file, set(found) ^ set(wanted))
    for name, (dtype, shape) in wanted.items():
        assert found[name][0] in (None, dtype) and found[name][1] == shape, (file, name, found[name][:2])
        assert found[name][2] == content(name, len(found[name][2])), (file, name)
    assert {name: len(text) for name, text in attributes.items()} == texts, file
    assert all(set(text) <= {'y'} for text in attributes.values())
    checked += 1

lines = [line.rstrip('\n').split('\t') for line in open(path, encoding='utf-8')]
while lines:
    _, file, kind = lines.pop(0)
    wanted, texts = {}, {}
    while lines and lines[0][0] != 'file':
        what, *rest = lines.pop(0)
        if what == 'attribute':
            texts[rest[0]] = int(rest[1])
        else:
            wanted[rest[2]] = rest[0], tuple(int(n) for n in rest[1].split(',') if n)
    check(file, kind, wanted, texts)
assert checked == count
)";

TEST(Formats, NativeReadersFindEveryValueAndAttribute) {
  const Scratch scratch;
  std::ofstream list(scratch / "list.txt");
  int count = 0;
  for (const WriteFormat format : all_formats()) {
    if (format == WriteFormat::raw || format == WriteFormat::hdf5) continue;  // HDF5: image_test.cpp
    for (std::uint64_t seed = 500; seed < 520; ++seed) {
      const Checkpoint made = random_checkpoint(seed, kMostTensors, format);
      const std::string name = std::string(name_of(format)) + std::to_string(seed);
      save_by_writer(made, format, scratch / name.c_str());
      describe(list, name, format, made);
      ++count;
    }
  }
  list.close();
  EXPECT_TRUE(python(scratch / "list.txt", "count = " + std::to_string(count) + "\n" + kNativeReaders));
}

TEST(Formats, OurReaderFindsEveryValueAndAttribute) {
  const Scratch scratch;
  for (const WriteFormat format : all_formats()) {
    if (format == WriteFormat::raw) continue;
    for (std::uint64_t seed = 600; seed < 615; ++seed) {
      const Checkpoint made = random_checkpoint(seed, kMostTensors, format);
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
      const Checkpoint made = random_checkpoint(seed, kMostTensors, format);
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
    const Checkpoint made = random_checkpoint(42, kMostTensors, format);
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

/// Several chunks, of which the last is not full, and one dimension that alone is larger than a chunk.
TEST(Formats, LargeTensorsAreCompressedInChunks) {
  const Scratch scratch;
  const Checkpoint made{{meta_of("rows", "float32", {1001, 700}), meta_of("wide", "float64", {3, 200'001})},
                        {}};
  save_by_writer(made, WriteFormat::hdf5_deflate, scratch / "c.h5");
  EXPECT_TRUE(python(scratch / "c.h5", R"(
with h5py.File(path) as f:
    assert f['rows'].chunks == (374, 700) and f['wide'].chunks == (1, 131072), (f['rows'].chunks, f['wide'].chunks)
    for name in ('rows', 'wide'):
        i = np.arange(f[name].nbytes, dtype=np.int64)
        assert f[name][()].tobytes() == ((7 * i + i // 256 + 4) & 255).astype(np.uint8).tobytes()
)"));
  const Reader reader(scratch / "c.h5");
  for (const TensorMeta& meta : made.metas) {
    std::vector<std::uint8_t> bytes(meta.bytes());
    reader.read(*reader.find(meta.path), bytes.data(), bytes.size());
    EXPECT_EQ(bytes, content(meta));
    EXPECT_EQ(reader.checksum(meta.path)->value, crc32c(bytes.data(), bytes.size()));
  }
  EXPECT_LT(std::filesystem::file_size(scratch / "c.h5"), 1'000'000U);
}

/// What does not fit into 32 bits. The file is a hole in the disk but for what surrounds the large tensor,
/// whose checksum nobody asks for.
TEST(Formats, ArchivesAbove4GiBHaveTheFieldsOfZip64) {
  const Scratch scratch;
  const Checkpoint made{
      {meta_of("big", "uint8", {std::uint64_t{5} << 30U}), meta_of("small", "float32", {3, 2})},
      {{"spec", "{}"}}};
  for (const WriteFormat format : {WriteFormat::npz, WriteFormat::pytorch}) {
    SharedSink sink(scratch / "c");
    const Image image = image_of(format, made.metas, made.attributes);
    ImageWriter writer(image, sink);
    writer.fixed();
    const std::vector<std::uint8_t> bytes = content(made.metas[1]);
    writer.tensor("small", bytes.data(), bytes.size());
    writer.checksums();
    sink.commit();
    const Reader reader(scratch / "c");
    EXPECT_EQ(reader.find("big")->shape, made.metas[0].shape);
    std::vector<std::uint8_t> found(bytes.size());
    reader.read(*reader.find("small"), found.data(), found.size());
    EXPECT_EQ(found, bytes);
    EXPECT_TRUE(python(scratch / "c", "kind = '" + std::string(name_of(format)) + R"('
if kind == 'npz':
    with np.load(path) as f:
        small = f['small']
        with f.zip.open('big.npy') as big:
            assert np.lib.format.read_magic(big) == (1, 0)
            assert np.lib.format.read_array_header_1_0(big)[0] == (5 << 30,)
else:
    import torch
    tree = torch.load(path, weights_only=True, mmap=True)
    assert tree['big'].shape == (5 << 30,) and tree['big'][-1] == 0
    small = tree['small'].numpy()
assert small.shape == (3, 2) and small.tobytes() == ((7 * np.arange(24) + 5) & 255).astype(np.uint8).tobytes()
)"));
  }
}

}  // namespace
}  // namespace bitrift::ckpt::sink_test
