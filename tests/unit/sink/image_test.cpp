#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ckpt/reader.h"
#include "sink/format/writer.h"
#include "sink/hdf5_image.h"
#include "sink/plain_sink.h"
#include "support.h"
#include "unit/scratch.h"

namespace bitrift::ckpt::sink_test {
namespace {

using testing::bytes_of;
using testing::python;
using testing::Scratch;

constexpr std::uint64_t kMost = 300;

TEST(Image, FilesOfRandomCheckpointsAreThoseAssembledInMemory) {
  const Scratch scratch;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const Checkpoint made = random_checkpoint(seed, kMost);
    Writer writer(scratch / "c.h5", made.metas, made.attributes);
    std::vector<TensorMeta> reversed = made.metas;
    std::reverse(reversed.begin(), reversed.end());
    for (const TensorMeta& meta : reversed) {
      const std::vector<std::uint8_t> bytes = content(meta);
      writer.tensor(meta.path, bytes.data(), bytes.size());
    }
    writer.commit();
    ASSERT_EQ(bytes_of(scratch / "c.h5"), expected_bytes(made)) << seed;
  }
}

TEST(Image, ItsPartsDoNotOverlapAndLieInTheFile) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Checkpoint made = random_checkpoint(seed, kMost);
    const Image image = hdf5_image(made.metas, made.attributes);
    ASSERT_EQ(image.tensors.size(), made.metas.size());
    std::uint64_t end = 0;
    for (const auto& [offset, bytes] : parts_of(image)) {
      ASSERT_GE(offset, end) << seed;
      end = offset + bytes;
    }
    ASSERT_LE(end, image.file_bytes) << seed;
  }
}

TEST(Image, AFormatThatHdf5CannotDescribeIsRefused) {
  EXPECT_ERROR(static_cast<void>(hdf5_image({{"w", number_format("float8_e4m3fn").value(), {2}}}, {})),
               bad_input, "w: HDF5 has no type for float8_e4m3fn");
}

TEST(Image, FindsTensorsByTheirPaths) {
  const NumberFormat format = number_format("int16").value();
  const Image image = hdf5_image({{"b", format, {3}}, {"a/c", format, {}}, {"z", format, {0}}}, {});
  for (const char* path : {"a/c", "b", "z"}) {
    ASSERT_NE(image.find(path), nullptr);
    EXPECT_EQ(image.find(path)->path, path);
  }
  EXPECT_EQ(image.find("b")->bytes, 6U);
  EXPECT_EQ(image.find("z")->bytes, 0U);
  for (const char* path : {"", "a", "checksum/path", "c", "zz"}) EXPECT_EQ(image.find(path), nullptr) << path;
}

TEST(Image, OneServesEverySaveUnderEveryNameInEveryProcess) {
  const Scratch scratch;
  const Checkpoint made = random_checkpoint(3, kMost);
  const Image image = hdf5_image(made.metas, made.attributes);
  const auto save_as = [&](const char* name) {
    PlainSink sink(scratch / name);
    save(made, image, sink);
  };
  save_as("first.h5");
  save_as("a much longer name.h5");
  const pid_t child = ::fork();
  if (child == 0) {
    save_as("child.h5");
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const std::string expected = expected_bytes(made);
  for (const char* name : {"first.h5", "a much longer name.h5", "child.h5"})
    EXPECT_EQ(bytes_of(scratch / name), expected) << name;
}

TEST(Image, OurReaderFindsEveryValueAndChecksum) {
  const Scratch scratch;
  for (std::uint64_t seed = 200; seed < 230; ++seed) {
    const Checkpoint made = random_checkpoint(seed, kMost);
    PlainSink sink(scratch / "c.h5");
    save(made, hdf5_image(made.metas, made.attributes), sink);
    const Reader reader(scratch / "c.h5");
    EXPECT_EQ(reader.attributes(), made.attributes);
    EXPECT_EQ(reader.tensors().size(), made.metas.size() + 2);
    for (const TensorMeta& meta : made.metas) {
      const TensorInfo* const tensor = reader.find(meta.path);
      ASSERT_NE(tensor, nullptr) << seed << " " << meta.path;
      EXPECT_EQ(tensor->format, meta.format) << seed << " " << meta.path << " " << meta.format.name();
      EXPECT_EQ(tensor->shape, meta.shape);
      std::vector<std::uint8_t> bytes(meta.bytes());
      reader.read(*tensor, bytes.data(), bytes.size());
      EXPECT_EQ(bytes, content(meta));
      const auto checksum = reader.checksum(meta.path);
      ASSERT_TRUE(checksum.has_value());
      EXPECT_EQ(checksum->value, crc32c(bytes.data(), bytes.size()));
    }
  }
}

TEST(Image, H5pyFindsEveryValueAndAttribute) {
  const Scratch scratch;
  std::string script = "import os\nfor name, count, attributes in [";
  for (std::uint64_t seed = 300; seed < 330; ++seed) {
    const Checkpoint made = random_checkpoint(seed, kMost);
    const std::string name = std::to_string(seed) + ".h5";
    PlainSink sink(scratch / name.c_str());
    save(made, hdf5_image(made.metas, made.attributes), sink);
    script += "('" + name + "', " + std::to_string(made.metas.size()) + ", {";
    for (const auto& [key, text] : made.attributes)
      script += "'" + key + "': " + std::to_string(text.size()) + ", ";
    script += "}),\n";
  }
  script += R"(]:
    file = os.path.join(os.path.dirname(path), name)
    raw = np.fromfile(file, np.uint8)
    with h5py.File(file) as f:
        assert {key: len(text) for key, text in f.attrs.items()} == attributes
        assert all(set(text) <= {'y'} for text in f.attrs.values())
        found = []
        f.visititems(lambda n, o: found.append(n) if isinstance(o, h5py.Dataset) and not n.startswith('checksum/') else None)
        assert len(found) == count and [n.decode() for n in f['checksum/path'][()]] == sorted(found, key=str.encode)
        for n in found:
            values = f[n].id
            size = int(np.prod(values.shape, dtype=np.int64)) * values.get_type().get_size()
            i = np.arange(size)
            if size:
                start = values.get_offset()
                assert (raw[start:start + size] == (7 * i + i // 256 + len(n.encode())) % 256).all(), (name, n)
)";
  EXPECT_TRUE(python(scratch / "any", script));
}

}  // namespace
}  // namespace bitrift::ckpt::sink_test
