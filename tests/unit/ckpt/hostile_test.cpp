// Files whose names and claims contradict themselves: each tensor is found under its name, or an error says
// why.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ckpt/reader.h"
#include "unit/scratch.h"

namespace bitrift::ckpt::hostile_test {
namespace {

using ::bitrift::testing::bytes_of;
using ::bitrift::testing::python;
using ::bitrift::testing::Scratch;
using ::bitrift::testing::write_bytes;

/// Makes each of these words, at its first place, end in `last`.
void end_alike(const std::filesystem::path& path, const std::vector<std::string>& words, char last) {
  std::string bytes = bytes_of(path);
  for (const std::string& word : words) {
    const auto at = bytes.find(word);
    ASSERT_NE(at, std::string::npos) << word;
    bytes[at + word.size() - 1] = last;
  }
  write_bytes(path, bytes);
}

void expect_each_found(const Reader& reader, const std::vector<TensorInfo>& tensors) {
  for (const TensorInfo& tensor : tensors) {
    EXPECT_EQ(reader.find(tensor.path), &tensor) << tensor.path;
    float value = 0;
    reader.read_elements(tensor, 0, 1, &value);
  }
}

TEST(HostileFile, AttributesOfOneNameAreEachFound) {
  const Scratch scratch;
  ASSERT_TRUE(python(scratch / "f.h5",
                     "with h5py.File(path, 'w') as f:\n"
                     "  f['w'] = np.ones(2, '<f4')\n"
                     "  for i in range(1, 5): f['w'].attrs[f'twin{i}'] = np.float32(i)\n"
                     "  f['w'].attrs['twin1!'] = np.float32(9)\n"));
  end_alike(scratch / "f.h5", {"twin2", "twin3", "twin4"}, '1');
  const Reader reader(scratch / "f.h5");
  std::set<std::string> names;
  for (const TensorInfo& tensor : reader.attribute_tensors()) names.insert(tensor.path);
  EXPECT_EQ(names, (std::set<std::string>{"w@twin1", "w@twin1!", "w@twin1:", "w@twin1:2", "w@twin1:3"}));
  expect_each_found(reader, reader.attribute_tensors());
}

TEST(HostileFile, MembersOfOneNameAreEachFound) {
  const Scratch scratch;
  ASSERT_TRUE(python(scratch / "f.h5",
                     "with h5py.File(path, 'w') as f:\n"
                     "  f['w'] = np.zeros(2, [(f'part{i}', '<f4') for i in range(3)])\n"
                     "  f['w:part0:'] = np.zeros(2, '<f4')\n"));
  end_alike(scratch / "f.h5", {"part1", "part2"}, '0');
  const Reader reader(scratch / "f.h5");
  EXPECT_EQ(reader.tensors().size(), 4U);
  expect_each_found(reader, reader.tensors());
}

TEST(HostileFile, AttributesThatAreAskedForLateMoveNothing) {
  const Scratch scratch;
  ASSERT_TRUE(python(scratch / "f.h5",
                     "with h5py.File(path, 'w') as f:\n"
                     "  f['w'] = np.ones(2, '<f4')\n"
                     "  for i in range(50): f['w'].attrs[f'a{i}'] = np.float32(i)\n"));
  const Reader reader(scratch / "f.h5");
  const Values* const values = &reader.values(reader.tensors()[0]);
  EXPECT_EQ(reader.attribute_tensors().size(), 50U);
  EXPECT_EQ(&reader.values(reader.tensors()[0]), values);
}

TEST(HostileFile, ChecksumsForMoreTensorsThanFitIntoMemoryAreRefused) {
  const Scratch scratch;
  ASSERT_TRUE(python(scratch / "f.h5",
                     "with h5py.File(path, 'w') as f:\n"
                     "  for name, kind in (('path', 'S20'), ('crc32c', '<u4')):\n"
                     "    f.create_dataset('checksum/' + name, (1 << 40,), kind, chunks=(1 << 10,))\n"));
  const Reader reader(scratch / "f.h5");
  EXPECT_ERROR((void)reader.checksum("w"), bad_file, "do not belong together");
}

TEST(HostileFile, OneTextThatManyAttributesShareCostsBoundedMemory) {
  const Scratch scratch;
  ASSERT_TRUE(python(scratch / "f.h5",
                     "import ctypes\n"
                     "from h5py import h5a, h5f, h5p, h5s, h5t\n"
                     "loaded = {line.split()[-1] for line in open('/proc/self/maps') if 'libhdf5' in line}\n"
                     "c = ctypes.CDLL(next(name for name in loaded if '_hl' not in name))\n"
                     "made, access = h5p.create(h5p.FILE_CREATE), h5p.create(h5p.FILE_ACCESS)\n"
                     "access.set_libver_bounds(h5f.LIBVER_LATEST, h5f.LIBVER_LATEST)\n"
                     "here = ctypes.c_int64(made.id)\n"
                     "assert c.H5Pset_shared_mesg_nindexes(here, 1) >= 0\n"
                     "assert c.H5Pset_shared_mesg_index(here, 0, 0x1000, 30) >= 0\n"
                     "kind = h5t.C_S1.copy()\n"
                     "kind.set_size(60000)\n"
                     "with h5py.File(h5f.create(path.encode(), h5f.ACC_TRUNC, made, access)) as f:\n"
                     "  for i in range(1500):\n"
                     "    f[f'd{i}'] = np.uint8(0)\n"
                     "    a = h5a.create(f[f'd{i}'].id, b't', kind, h5s.create(h5s.SCALAR))\n"
                     "    a.write(np.full((), b'x' * 60000))\n"));
  EXPECT_LT(std::filesystem::file_size(scratch / "f.h5"), 1'000'000U);
  const Reader reader(scratch / "f.h5");
  std::uint64_t texts = 0;
  for (const TensorInfo& attribute : reader.attribute_tensors()) texts += reader.text_of(attribute) ? 1U : 0U;
  EXPECT_EQ(reader.attribute_tensors().size(), 1500U);
  EXPECT_GT(texts, 1000U);
  EXPECT_LT(texts, 1400U);
}

TEST(HostileFile, OneTypeThatManyDatasetsShareCostsBoundedMemory) {
  const Scratch scratch;
  ASSERT_TRUE(
      python(scratch / "f.h5",
             "from h5py import h5t, h5d, h5s\n"
             "kind = h5t.create(h5t.COMPOUND, 2000)\n"
             "for i in range(2000): kind.insert(b'%x' % i, i, h5t.STD_I8LE)\n"
             "with h5py.File(path, 'w', libver='latest') as f:\n"
             "  kind.commit(f.id, b't')\n"
             "  for i in range(120): h5d.create(f.id, b'd%03d' % i, kind, h5s.create_simple((1,)))\n"));
  EXPECT_LT(std::filesystem::file_size(scratch / "f.h5"), 300'000U);
  const Reader reader(scratch / "f.h5");
  EXPECT_LT(reader.tensors().size(), 230'000U);
  EXPECT_NE(reader.find("d000:7cf"), nullptr);
  ASSERT_NE(reader.find("d119"), nullptr);
  EXPECT_EQ(reader.find("d119")->dtype, "compound");
}

}  // namespace
}  // namespace bitrift::ckpt::hostile_test
