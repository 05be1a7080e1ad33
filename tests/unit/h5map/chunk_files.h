// Chunked datasets of every kind, made by h5py, and what h5py says of their chunks.
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "h5map/chunk/chunk_table.h"
#include "unit/scratch.h"

namespace bitrift::testing {

/// What `describe` below writes beside each file.
struct ChunkFile {
  struct Stored {
    std::uint64_t offset = 0, bytes = 0;
    std::uint32_t mask = 0;
    auto operator<=>(const Stored&) const = default;
  };

  std::filesystem::path path;
  h5map::Frame frame;
  h5map::Layout layout;
  std::vector<std::uint64_t> shape, max_shape;
  std::uint64_t element_bytes = 0;
  std::map<std::vector<std::uint64_t>, Stored> chunks;  // by position in the grid

  [[nodiscard]] h5map::ChunkTable open(const h5map::Source& source) const {
    return {source, frame, layout, shape, max_shape, element_bytes, "d"};
  }
};

/// Python: make(name, shape, chunks, ...) writes path/name.h5 with one dataset "d" and describes it.
inline const std::string chunk_file_script = R"(
import ctypes, glob, os, itertools
library = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(h5py.__file__), '..', 'h5py.libs', 'libhdf5-*'))[0])
os.makedirs(path, exist_ok=True)
def describe(name, index, dtype, partial=False, base=0):
    where = os.path.join(path, name + '.h5')
    blob = open(where, 'rb').read()
    with h5py.File(where, 'r') as f:
        d = f['d']
        stored = []
        d.id.chunk_iter(lambda c: stored.append((c.chunk_offset, c.byte_offset, c.size, c.filter_mask)))
        if index == 'extensible_array' and d.ndim > 1:
            # HDF5 2.0's own list is wrong where the array counts the chunks in another order than the dataset.
            by_address, corners = dict((s[1], s) for s in stored), []
            for at in itertools.product(*(range(0, n, c) for n, c in zip(d.shape, d.chunks))):
                try: mask, raw = d.id.read_direct_chunk(at)
                except Exception: continue
                found = [a for a, s in by_address.items() if blob[a:a + s[2]] == raw]
                assert len(found) == 1, 'chunks must be different'
                corners.append((at, found[0], len(raw), mask))
            stored = corners
        plist = d.id.get_create_plist()
        filters = [plist.get_filter(i) for i in range(plist.get_nfilters())]
        magic = {'fixed_array': b'FAHD', 'extensible_array': b'EAHD', 'btree2': b'BTHD', 'btree1': b'TREE\x01'}.get(index)
        if magic is None:
            address = min(s[1] for s in stored)
        elif index == 'btree1':  # the root is the highest node; its siblings are undefined
            found, at = [], blob.find(magic)
            while at >= 0:
                found.append((blob[at + 5], at)); at = blob.find(magic, at + 1)
            address = max(found)[1]
        else:
            assert blob.count(magic) == 1
            address = blob.find(magic)
        single = blob.find((address - base).to_bytes(8, 'little')) if index == 'single' else 0
        with open(where + '.txt', 'w') as out:
            row = lambda *a: print(*a, file=out)
            row(index, address, base, int(partial), single, d.dtype.itemsize)
            row('shape', *d.shape); row('max', *(2**64 - 1 if m is None else m for m in d.maxshape)); row('chunk', *d.chunks)
            for f_ in filters: row('filter', f_[0], *f_[2])
            for o, a, s, m in stored: row('at', *(x // c for x, c in zip(o, d.chunks)), a, s, m)
def make(name, index, shape, chunks, maxshape=None, dtype='<f4', fill=None, partial=False, early=False, base=0, libver='latest', seed=1, **filters):
    where = os.path.join(path, name + '.h5')
    with h5py.File(where, 'w', libver=libver, userblock_size=base) as f:
        dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        dcpl.set_chunk(chunks)
        if early: dcpl.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        dcpl = h5py._hl.filters.fill_dcpl(dcpl, shape, np.dtype(dtype), chunks, filters.get('compression'), filters.get('compression_opts'),
            filters.get('shuffle'), filters.get('fletcher32'), maxshape, filters.get('scaleoffset'), None)
        if partial: assert library.H5Pset_chunk_opts(ctypes.c_int64(dcpl.id), 2) >= 0
        space = h5py.h5s.create_simple(shape, tuple(h5py.h5s.UNLIMITED if m is None else m for m in maxshape) if maxshape else shape)
        d = h5py.Dataset(h5py.h5d.create(f.id, b'd', h5py.h5t.py_create(np.dtype(dtype)), space, dcpl))
        if fill is None:
            count = int(np.prod(shape))
            values = np.random.default_rng(seed).integers(0, 127, count)
            d[...] = values.astype(dtype).reshape(shape)
        else:
            fill(d)
    describe(name, index, dtype, partial, base)
)";

inline ChunkFile read_chunk_file(const std::filesystem::path& folder, const std::string& name) {
  static const std::map<std::string, h5map::ChunkIndex> kinds = {
      {"btree1", h5map::ChunkIndex::btree1},
      {"single", h5map::ChunkIndex::single},
      {"implicit", h5map::ChunkIndex::implicit},
      {"fixed_array", h5map::ChunkIndex::fixed_array},
      {"extensible_array", h5map::ChunkIndex::extensible_array},
      {"btree2", h5map::ChunkIndex::btree2}};
  ChunkFile file;
  file.path = folder / (name + ".h5");
  std::ifstream in(file.path.string() + ".txt");
  std::string line;
  std::getline(in, line);
  std::istringstream first(line);
  std::string index;
  std::uint64_t single = 0;
  h5map::ChunkedLayout& chunked = file.layout.chunked;
  first >> index >> chunked.address >> file.frame.base >> chunked.partial_unfiltered >> single >>
      file.element_bytes;
  chunked.index = kinds.at(index);
  file.layout.storage = h5map::Storage::chunked;
  while (std::getline(in, line)) {
    std::istringstream row(line);
    std::string what;
    row >> what;
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t number = 0; row >> number;) numbers.push_back(number);
    if (what == "shape") file.shape = numbers;
    if (what == "max") file.max_shape = numbers;
    if (what == "chunk") chunked.chunk = numbers;
    if (what == "filter") {
      file.layout.filters.push_back(
          {static_cast<unsigned>(numbers[0]), false, "", {numbers.begin() + 1, numbers.end()}});
    }
    if (what == "at") {
      const auto rank = static_cast<std::ptrdiff_t>(numbers.size()) - 3;
      const std::vector<std::uint64_t> at(numbers.begin(), numbers.begin() + rank);
      file.chunks[at] = {numbers[at.size()], numbers[at.size() + 1],
                         static_cast<std::uint32_t>(numbers[at.size() + 2])};
    }
  }
  if (chunked.index == h5map::ChunkIndex::single) {
    chunked.address_field = {single, 8, std::nullopt};
    const auto& stored = file.chunks.begin()->second;
    chunked.single_bytes = stored.bytes;
    chunked.single_mask = stored.mask;
    chunked.single_bytes_field = {single - 12, 8, std::nullopt};
  }
  return file;
}

}  // namespace bitrift::testing
