#include "filters/filter_pipeline.h"

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/scratch.h"

namespace bitrift::h5::filter_pipeline_test {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::python;
using testing::Scratch;
using testing::write_bytes;
using Bytes = std::vector<std::uint8_t>;

struct File {
  PipelineSpec spec;
  std::vector<StoredChunk> chunks;
  std::vector<Bytes> values;  // as h5py reads them
};

// Python: make(name, data, chunks, **filters) writes what `File` holds.
const std::string script = R"(
import itertools, os
os.makedirs(path, exist_ok=True)
def make(name, data, chunks, fill=None, dcpl=None, dtype=None, **filters):
    where = os.path.join(path, name)
    with h5py.File(where + '.h5', 'w') as f:
        if dcpl is not None:
            dcpl.set_chunk(chunks)
            tid = dtype or h5py.h5t.py_create(data.dtype)
            d = h5py.Dataset(h5py.h5d.create(f.id, b'd', tid, h5py.h5s.create_simple(data.shape), dcpl))
            d[...] = data
        else:
            d = f.create_dataset('d', data=data, chunks=chunks, fillvalue=fill, **filters)
        plist = d.id.get_create_plist()
        with open(where + '.txt', 'w') as out, open(where + '.bin', 'wb') as raw:
            print(d.id.get_type().get_size(), *chunks, file=out)
            for i in range(plist.get_nfilters()):
                one = plist.get_filter(i)
                print('filter', one[0], one[1] & 1, *one[2], file=out)
            raw.write(d.id.get_type().encode()[2:])
            print('type', raw.tell(), file=out)
            for at in itertools.product(*(range(0, n, c) for n, c in zip(d.shape, chunks))):
                mask, stored = d.id.read_direct_chunk(at)
                raw.write(stored)
                mine = np.empty(chunks, d.dtype)
                here = d.id.get_space(); here.select_hyperslab(at, chunks)
                d.id.read(h5py.h5s.create_simple(chunks), here, mine, mtype=d.id.get_type())
                raw.write(mine.tobytes())
                print('chunk', mask, len(stored), mine.nbytes, file=out)
def scale_offset(data): return dict(scaleoffset=data)
)";

File read_file(const std::filesystem::path& folder, const std::string& name) {
  File file;
  std::istringstream in(bytes_of(folder / (name + ".txt")));
  const std::string raw = bytes_of(folder / (name + ".bin"));
  std::size_t at = 0;
  const auto take = [&](std::size_t count) {
    Bytes bytes(raw.begin() + static_cast<std::ptrdiff_t>(at),
                raw.begin() + static_cast<std::ptrdiff_t>(at + count));
    at += count;
    return bytes;
  };
  for (std::string line; std::getline(in, line);) {
    std::istringstream row(line);
    std::string what;
    if (line[0] == 't' || line[0] == 'c' || line[0] == 'f') row >> what;
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t number = 0; row >> number;) numbers.push_back(number);
    if (what.empty()) {
      file.spec.element_bytes = numbers[0];
      file.spec.chunk.assign(numbers.begin() + 1, numbers.end());
    } else if (what == "filter") {
      PipelineFilter filter{static_cast<unsigned>(numbers[0]), numbers[1] != 0, {}};
      for (std::size_t i = 2; i < numbers.size(); ++i) {
        filter.values.push_back(static_cast<std::uint32_t>(numbers[i]));
      }
      file.spec.filters.push_back(filter);
    } else if (what == "type") {
      file.spec.datatype = take(numbers[0]);
    } else {
      file.chunks.push_back({take(numbers[1]), static_cast<std::uint32_t>(numbers[0])});
      file.values.push_back(take(numbers[2]));
    }
  }
  return file;
}

// Both ways agree with h5py, here and in a child; then h5py reads what was coded.
void expect_same(const std::filesystem::path& folder, const std::string& name) {
  SCOPED_TRACE(name);
  const File file = read_file(folder, name);
  ASSERT_FALSE(file.chunks.empty());
  std::string coded;
  const ChunkPipeline pipeline(file.spec, name);
  for (std::size_t i = 0; i < file.chunks.size(); ++i) {
    EXPECT_EQ(pipeline.decode(file.chunks[i].bytes, file.chunks[i].mask), file.values[i]);
    const Bytes& values = file.values[file.chunks.size() - 1 - i];
    const Recoded recoded = pipeline.recode(values);
    EXPECT_THAT(recoded.differing, IsEmpty());
    coded += std::to_string(recoded.stored.mask) + " " + std::to_string(recoded.stored.bytes.size()) + "\n";
    coded.append(recoded.stored.bytes.begin(), recoded.stored.bytes.end());
  }
  write_bytes(folder / (name + ".coded"), coded);
}

const std::string read_coded = R"(
import glob, itertools, os
try: import hdf5plugin
except ImportError: pass
done = 0
for coded in sorted(glob.glob(path + '/*.coded')):
    done += 1
    name, blob = coded[:-6] + '.h5', open(coded, 'rb')
    with h5py.File(name, 'r+') as f:
        d = f['d']
        places = list(itertools.product(*(range(0, n, c) for n, c in zip(d.shape, d.chunks))))
        part = lambda at: tuple(slice(o, o + c) for o, c in zip(at, d.chunks))
        before = [d[part(at)].tobytes() for at in places]  # the coder had them in reverse
        for at in places:
            mask, size = map(int, blob.readline().split())
            d.id.write_direct_chunk(at, blob.read(size), mask)
    with h5py.File(name) as f:
        assert [f['d'][part(at)].tobytes() for at in places] == before[::-1], name
assert done > 0
)";

TEST(Pipeline, FiltersOfHdf5CodeAsH5pyReads) {
  const Scratch scratch;
  const auto folder = scratch / "files";
  ASSERT_TRUE(python(folder, script + R"(
random = np.random.default_rng(1)
for dtype in ('<i4', '>i2', '<u8', 'i1'):
    data = random.integers(0, 100, (20, 30)).astype(dtype)
    make('offset' + str(np.dtype(dtype).num), data, (10, 15), scaleoffset=0)
    make('fill' + str(np.dtype(dtype).num), data, (10, 15), fill=7, scaleoffset=0, shuffle=True)
for dtype in ('<f4', '>f8', '<i2'):
    data = random.normal(size=(20, 30)).astype(dtype)
    make('szip' + str(np.dtype(dtype).num), data, (10, 15), compression='szip', compression_opts=('nn', 8))
    make('szipsum' + str(np.dtype(dtype).num), data, (10, 15), compression='szip', fletcher32=True)
for order in (h5py.h5t.STD_I32LE, h5py.h5t.STD_I32BE):
    tid = order.copy(); tid.set_precision(17); tid.set_offset(3)
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE); dcpl.set_chunk((10, 15)); dcpl.set_filter(5, 0)
    make('nbit%d' % order.get_order(), random.integers(-99, 99, (20, 30)).astype('<i4'), (10, 15), dcpl=dcpl, dtype=tid)
dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE); dcpl.set_chunk((10, 15)); dcpl.set_filter(5, 0)
make('nbit_of_whole_numbers', random.integers(-99, 99, (20, 30)).astype('<i4'), (10, 15), dcpl=dcpl)
make('bool', random.integers(0, 2, (20, 30)).astype(bool), (10, 15), compression='szip')
make('gzip', random.integers(0, 9, (20, 30)), (10, 15), compression='gzip', shuffle=True, fletcher32=True)
)"));
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".txt") continue;
    expect_same(folder, entry.path().stem().string());
    ++count;
  }
  EXPECT_EQ(count, 19U);
  EXPECT_TRUE(python(folder, read_coded));
}

/// hdf5plugin's folder of filters.
std::string plugin_folder(const Scratch& scratch) {
  const auto path = scratch / "plugins";
  EXPECT_TRUE(python(path, "import hdf5plugin\nopen(path, 'w').write(hdf5plugin.PLUGIN_PATH)\n"))
      << "tools/setup --dev installs hdf5plugin";
  return bytes_of(path);
}

TEST(Pipeline, PluginsCodeAsH5pyReads) {
  const Scratch scratch;
  const std::string plugins = plugin_folder(scratch);
  ASSERT_FALSE(plugins.empty());
  const auto folder = scratch / "files";
  ASSERT_TRUE(python(folder, "import hdf5plugin\n" + script + R"(
data = np.random.default_rng(2).integers(0, 1000, (20, 30)).astype('<f4')
for name in ('Zstd', 'LZ4', 'Blosc', 'Blosc2', 'Bitshuffle', 'BZip2'):
    make(name, data, (10, 15), **getattr(hdf5plugin, name)())
make('BloscZstd', data.astype('>f8'), (10, 15), **hdf5plugin.Blosc(cname='zstd', clevel=9, shuffle=2))
make('BitZstd', data.astype('<i2'), (5, 30), **hdf5plugin.Bitshuffle(cname='zstd', clevel=3), fletcher32=True)
make('Zfp', data, (20, 30), **hdf5plugin.Zfp(accuracy=0.5))
)"));
  ::setenv("HDF5_PLUGIN_PATH", plugins.c_str(), 1);
  for (const char* name : {"Zstd", "LZ4", "Blosc", "Blosc2", "Bitshuffle", "BZip2", "BloscZstd", "BitZstd"}) {
    expect_same(folder, name);
  }
  EXPECT_TRUE(python(folder, read_coded));
}

TEST(Pipeline, AMissingPluginIsNamedWithTheWayToGetIt) {
  const Scratch scratch;
  const auto folder = scratch / "files";
  ASSERT_TRUE(python(folder, script + "make('d', np.arange(20, dtype='<f4'), (10,), compression='gzip')\n"));
  PipelineSpec spec = read_file(folder, "d").spec;
  spec.filters[0].id = 400;
  EXPECT_ERROR((void)ChunkPipeline(spec, "f.h5: d").encode(Bytes(40)), unsupported,
               "f.h5: d: HDF5 finds no filter 400; set HDF5_PLUGIN_PATH");
  if (std::getenv("HDF5_PLUGIN_PATH") != nullptr) return;
  spec.filters[0].id = 32015;
  EXPECT_ERROR((void)ChunkPipeline(spec, "f.h5: d").encode(Bytes(40)), unsupported, "32015 (zstd)");
}

TEST(Pipeline, AFilterThatLosesDigitsSaysWhichElements) {
  const Scratch scratch;
  const auto folder = scratch / "files";
  ASSERT_TRUE(python(folder, script + R"(
make('d', np.round(np.linspace(0, 9, 100), 2).astype('<f4'), (100,), scaleoffset=2)
make('int', np.arange(100, dtype='<i4'), (100,), scaleoffset=8)
)"));
  {
    const File file = read_file(folder, "d");
    ChunkPipeline pipeline(file.spec, "d");
    Bytes values = pipeline.decode(file.chunks[0].bytes, file.chunks[0].mask);
    const float fine = 3.14159F;
    std::memcpy(values.data() + 4 * 17, &fine, 4);
    EXPECT_THAT(pipeline.recode(values).differing, ElementsAre(17U));
  }
  const File file = read_file(folder, "int");
  ChunkPipeline pipeline(file.spec, "int");
  Bytes values = pipeline.decode(file.chunks[0].bytes, file.chunks[0].mask);
  EXPECT_THAT(pipeline.recode(values).differing, IsEmpty());
  values[4 * 5 + 2] ^= 1;  // element 5 leaves the 8 bits that the filter keeps
  EXPECT_THAT(pipeline.recode(values).differing, ::testing::Contains(5U));
}

TEST(Pipeline, DifferingElementsAreCountedByTheirBytes) {
  const Bytes one = {1, 2, 3, 4, 5, 6, 7};
  Bytes other = one;
  EXPECT_THAT(differing_elements(one, other, 2), IsEmpty());
  other[3] = 0;
  other[6] = 0;
  EXPECT_THAT(differing_elements(one, other, 2), ElementsAre(1, 3));
}

TEST(Pipeline, DamagedChunksAreErrorsAndTheNextOneIsFine) {
  const Scratch scratch;
  const auto folder = scratch / "files";
  ASSERT_TRUE(python(folder, script + R"(
data = np.random.default_rng(1).integers(0, 100, (40, 40)).astype('<i4')
make('offset', data, (40, 40), scaleoffset=0)
make('szip', data, (40, 40), compression='szip', compression_opts=('nn', 8))
make('gzip', data, (40, 40), compression='gzip', shuffle=True)
dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE); dcpl.set_filter(5, 0)
tid = h5py.h5t.STD_I32LE.copy(); tid.set_precision(17); tid.set_offset(3)
make('nbit', data, (40, 40), dcpl=dcpl, dtype=tid)
)"));
  for (const char* name : {"offset", "szip", "gzip", "nbit"}) {
    SCOPED_TRACE(name);
    const File file = read_file(folder, name);
    ChunkPipeline pipeline(file.spec, name);
    std::size_t refused = 0;
    for (std::size_t i = 0; i < 120; ++i) {
      Bytes stored = file.chunks[0].bytes;
      if (i < 100) {
        stored[i * 7919 % std::min<std::size_t>(stored.size(), i < 50 ? 40 : stored.size())] ^=
            static_cast<std::uint8_t>(1U << (i % 8));
      } else {
        stored.resize(stored.size() * (i - 100) / 40 + 1);
      }
      try {
        EXPECT_EQ(pipeline.decode(stored, 0).size(), 6400U);
      } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).rfind(std::string(name) + ": ", 0), 0U) << error.what();
        EXPECT_EQ(error.code(), ErrorCode::bad_file);
        ++refused;
      }
    }
    EXPECT_GT(refused, 0U);
    EXPECT_EQ(pipeline.decode(file.chunks[0].bytes, 0), file.values[0]);
  }
}

TEST(Pipeline, AChunkOfFewerOrMoreValuesIsRefused) {
  const Scratch scratch;
  const auto folder = scratch / "files";
  ASSERT_TRUE(python(folder, script + R"(
make('small', np.arange(100, dtype='<i4'), (100,), compression='gzip')
make('large', np.arange(9000, dtype='<i4'), (9000,), compression='gzip')
)"));
  const File small = read_file(folder, "small");
  const File large = read_file(folder, "large");
  const ChunkPipeline pipeline(large.spec, "large");
  EXPECT_ERROR((void)pipeline.decode(small.chunks[0].bytes, 0), bad_file,
               "large: holds 400 bytes of values, not 36000");
  EXPECT_EQ(pipeline.decode(large.chunks[0].bytes, 0), large.values[0]);
  EXPECT_ERROR((void)ChunkPipeline(small.spec, "small").decode(large.chunks[0].bytes, 0), bad_file,
               "small: holds 36000 bytes");
}

TEST(Pipeline, WhatNoDatasetHasIsRefused) {
  const Scratch scratch;
  const auto folder = scratch / "files";
  ASSERT_TRUE(python(folder, script + "make('d', np.arange(100, dtype='<i4'), (100,), scaleoffset=0)\n"));
  const PipelineSpec good = read_file(folder, "d").spec;
  PipelineSpec spec = good;
  spec.chunk = {};
  EXPECT_ERROR(ChunkPipeline(spec, "d"), bad_file, "d: has chunks");
  spec.chunk = {1ULL << 33, 1ULL << 33};
  EXPECT_ERROR(ChunkPipeline(spec, "d"), bad_file, "d: has chunks");
  spec = good;
  spec.datatype[0] ^= 0x70;
  EXPECT_ERROR((void)ChunkPipeline(spec, "d").encode(Bytes(400)), unsupported, "d: ");
  spec = good;
  spec.element_bytes = 8;
  EXPECT_ERROR((void)ChunkPipeline(spec, "d").encode(Bytes(800)), bad_file, "elements of 8 bytes");
  spec = good;
  spec.filters[0].values[2] += 1;  // of another chunk
  EXPECT_ERROR((void)ChunkPipeline(spec, "d").encode(Bytes(400)), unsupported, "other parameters");
}

TEST(Pipeline, ThreadsMayAskAtOnce) {
  const Scratch scratch;
  const auto folder = scratch / "files";
  ASSERT_TRUE(python(folder, script + "make('d', np.arange(100, dtype='<i4'), (100,), scaleoffset=0)\n"));
  const File file = read_file(folder, "d");
  const ChunkPipeline pipeline(file.spec, "d");
  std::vector<std::thread> threads;
  std::vector<int> good(4);
  for (int& count : good) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        count += pipeline.decode(file.chunks[0].bytes, 0) == file.values[0] ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(good, ::testing::Each(20));
}

}  // namespace
}  // namespace bitrift::h5::filter_pipeline_test
