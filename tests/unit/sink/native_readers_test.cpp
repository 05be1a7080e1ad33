// Files of every format, read by the libraries that such files are for.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ckpt/reader.h"
#include "sink/format/image_of.h"
#include "sink/shared_sink.h"
#include "support.h"
#include "unit/scratch.h"

namespace bitrift::ckpt::sink_test {
namespace {

using testing::python;
using testing::Scratch;

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
    return str(tensor.dtype).removeprefix('torch.').removesuffix('fnu'), tuple(tensor.shape), raw(tensor)

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
      const Checkpoint made = random_checkpoint(seed, kMostOfFormat, format);
      const std::string name = std::string(name_of(format)) + std::to_string(seed);
      save_by_writer(made, format, scratch / name.c_str());
      describe(list, name, format, made);
      ++count;
    }
  }
  list.close();
  EXPECT_TRUE(python(scratch / "list.txt", "count = " + std::to_string(count) + "\n" + kNativeReaders));
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
