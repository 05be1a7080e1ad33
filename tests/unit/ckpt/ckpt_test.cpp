#include <csignal>
#include <cstring>
#include <ctime>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ckpt/compare.h"
#include "ckpt/reader.h"
#include "core/crc32c.h"
#include "sink/format/writer.h"
#include "tests_support.h"
#include "unit/scratch.h"

namespace bitrift::ckpt::ckpt_test {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::python;
using testing::Scratch;
using testing::write_bytes;

std::vector<TensorMeta> metas() {
  return {{"model/conv.weight", number_format("float32").value(), {4, 3}},
          {"model/conv.bias", number_format("bfloat16").value(), {5}},
          {"optimizer/step/conv.weight", number_format("float32").value(), {}},
          {"rng/state", number_format("uint8").value(), {16}},
          {"model/empty", number_format("float64").value(), {0, 2}},
          {"progress/step", number_format("int64").value(), {}}};
}

std::vector<std::uint8_t> content(const TensorMeta& meta) {
  std::vector<std::uint8_t> bytes(meta.bytes());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(7 * i + meta.path.size());
  return bytes;
}

void put(Writer& writer, const TensorMeta& meta) {
  const auto bytes = content(meta);
  writer.tensor(meta.path, bytes.data(), bytes.size());
}

void save(const std::filesystem::path& path, std::vector<TensorMeta> order,
          const std::map<std::string, std::string>& attributes = {{"spec", "{}"}}) {
  Writer writer(path, metas(), attributes);
  for (const TensorMeta& meta : order) put(writer, meta);
  writer.commit();
}

TEST(Writer, H5pyReadsEveryByteAndEveryChecksum) {
  const Scratch scratch;
  const auto path = scratch / "c.h5";
  save(path, metas());
  EXPECT_TRUE(python(path, R"(
def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
raw = open(path, 'rb').read()
with h5py.File(path) as f:
    found = []
    f.visititems(lambda n, o: found.append(n) if isinstance(o, h5py.Dataset) and not n.startswith('checksum/') else None)
    table = dict(zip([n.decode() for n in f['checksum/path'][()]], f['checksum/crc32c'][()]))
    assert list(table) == sorted(found) and len(found) == 6, table
    for name in found:
        size = f[name].size * f[name].id.get_type().get_size()
        want = bytes((7 * i + len(name)) % 256 for i in range(size))
        if size:
            start = f[name].id.get_offset()
            assert raw[start:start + size] == want, name
        assert table[name] == crc32c(want), name
    assert f['model/conv.weight'].shape == (4, 3) and f['model/conv.weight'].dtype == '<f4'
    assert f.attrs['spec'] == '{}'
)"));
}

TEST(Writer, TheOrderOfArrivalLeavesNoTrace) {
  const Scratch scratch;
  save(scratch / "1.h5", metas());
  auto reversed = metas();
  std::reverse(reversed.begin(), reversed.end());
  const auto second = std::time(nullptr);  // the resolution of time stamps in a file
  ASSERT_TRUE(tests::wait_until([&] { return std::time(nullptr) > second; }));
  save(scratch / "2.h5", reversed);
  EXPECT_EQ(bytes_of(scratch / "1.h5"), bytes_of(scratch / "2.h5"));
}

TEST(Writer, WithoutCommitTheOldFileStandsAndNothingElseIsLeft) {
  const Scratch scratch;
  write_bytes(scratch / "c.h5", "old");
  {
    Writer writer(scratch / "c.h5", metas(), {});
    for (const TensorMeta& meta : metas()) put(writer, meta);
  }
  EXPECT_EQ(bytes_of(scratch / "c.h5"), "old");
  EXPECT_EQ(scratch.entries(), 1U);
}

TEST(Writer, MissingDoubledUnknownAndMisshapenTensorsAreRefused) {
  const Scratch scratch;
  {
    Writer writer(scratch / "c.h5", metas(), {});
    put(writer, metas()[0]);
    EXPECT_ERROR(put(writer, metas()[0]), internal, "twice");
    EXPECT_ERROR(writer.tensor("model/other", "x", 1), internal, "not announced");
    EXPECT_ERROR(writer.tensor("checksum/crc32c", "x", 1), internal, "checksum");
    EXPECT_ERROR(writer.tensor("model/conv.bias", "x", 1), internal, "10 bytes, 1");
    EXPECT_ERROR(writer.commit(), internal, "never written");
  }
  EXPECT_EQ(scratch.entries(), 0U);
}

TEST(Writer, ImpossibleListsOfTensorsAreRefused) {
  const Scratch scratch;
  const NumberFormat format = number_format("int8").value();
  NumberFormat big = number_format("int16").value();
  big.order = ByteOrder::big;
  const auto refuse = [&](std::vector<TensorMeta> list) {
    EXPECT_ERROR(Writer(scratch / "c.h5", std::move(list), {}), bad_input, "");
  };
  refuse({});
  for (const char* path :
       {"", "/a", "a/", "a//b", "a/./b", "..", "checksum/path", "checksum/x", "checksum"}) {
    refuse({{path, format, {1}}});
  }
  refuse({{"a", format, {1}}, {"a", format, {2}}});
  refuse({{"a", format, {1}}, {"a/b", format, {2}}});
  refuse({{"a", big, {1}}});
  EXPECT_EQ(scratch.entries(), 0U);
}

TEST(Writer, AFullDiskIsAnErrorAndLeavesNothing) {
  const Scratch scratch;
  // In a child: the limit cannot be taken back, and the exit must be clean too.
  for (const rlim_t limit : {rlim_t{0}, rlim_t{4096}, rlim_t{30'000}, rlim_t{100'000}}) {
    const pid_t child = ::fork();
    if (child == 0) {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit both{limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &both);
      int code = 1;
      try {
        const TensorMeta big{"model/w", number_format("float32").value(), {100'000}};
        Writer writer(scratch / "c.h5", {big}, {});
        put(writer, big);
        writer.commit();
      } catch (const Error& error) {
        code = error.code() == ErrorCode::io ? 0 : 2;
      }
      std::exit(code);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << limit << " " << status;
    EXPECT_EQ(scratch.entries(), 0U);
  }
}

TEST(Reader, GivesBackWhatWasWritten) {
  const Scratch scratch;
  save(scratch / "c.h5", metas());
  const Reader reader(scratch / "c.h5");
  EXPECT_EQ(reader.tensors().size(), 8U);
  EXPECT_EQ(reader.attribute("spec"), "{}");
  EXPECT_EQ(reader.attribute("other"), std::nullopt);
  EXPECT_EQ(reader.find("model/conv"), nullptr);
  for (const TensorMeta& meta : metas()) {
    const TensorInfo* const tensor = reader.find(meta.path);
    ASSERT_NE(tensor, nullptr) << meta.path;
    EXPECT_EQ(tensor->format, meta.format);
    EXPECT_EQ(tensor->shape, meta.shape);
    EXPECT_EQ(tensor->refusal.empty(), meta.elements() > 0) << tensor->refusal;
    std::vector<std::uint8_t> bytes(meta.bytes());
    reader.read(*tensor, bytes.data(), bytes.size());
    EXPECT_EQ(bytes, content(meta));
    const auto checksum = reader.checksum(meta.path);
    ASSERT_TRUE(checksum.has_value());
    EXPECT_EQ(checksum->value, crc32c(bytes.data(), bytes.size()));
    std::uint32_t stored = 0;
    reader.read_elements(*reader.find("checksum/crc32c"), checksum->element, 1, &stored);
    EXPECT_EQ(stored, checksum->value);
  }
  EXPECT_EQ(reader.checksum("checksum/path"), std::nullopt);
}

TEST(Reader, TurnsBigEndianNumbersWhateverTheStorage) {
  const Scratch scratch;
  const auto path = scratch / "big.h5";
  ASSERT_TRUE(python(path, R"(
with h5py.File(path, 'w') as f:
    f['contiguous'] = np.arange(4, dtype='>i4')
    f.create_dataset('gzip', data=np.arange(4, dtype='>i4'), chunks=(2,), compression='gzip', shuffle=True)
    f.create_dataset('fill', shape=(4,), dtype='>i4', fillvalue=7)
)"));
  const Reader reader(path);
  const auto values = [&](const char* name) {
    std::vector<std::int32_t> result(4);
    reader.read(*reader.find(name), result.data(), 16);
    return result;
  };
  EXPECT_THAT(values("contiguous"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(values("gzip"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(values("fill"), ElementsAre(7, 7, 7, 7));
  std::vector<std::int32_t> two(2);
  reader.read_elements(*reader.find("contiguous"), 2, 2, two.data());
  EXPECT_THAT(two, ElementsAre(2, 3));
  EXPECT_ERROR(reader.read_elements(*reader.find("contiguous"), 3, 2, two.data()), internal, "contiguous");
  reader.read_elements(*reader.find("gzip"), 1, 2, two.data());
  EXPECT_THAT(two, ElementsAre(1, 2));
  EXPECT_ERROR(reader.read(*reader.find("gzip"), two.data(), 8), internal, "asked for 8 bytes");
}

TEST(Reader, ChecksumTablesThatDoNotBelongTogetherAreDamage) {
  const Scratch scratch;
  const auto path = scratch / "c.h5";
  ASSERT_TRUE(python(path, R"(
with h5py.File(path, 'w') as f:
    f['w'] = np.ones(3, '<f4')
    f['checksum/path'] = np.array([b'w'])
    f['checksum/crc32c'] = np.zeros(2, '<u4')
)"));
  const Reader reader(path);
  EXPECT_ERROR(static_cast<void>(reader.checksum("w")), bad_file, "do not belong together");
}

TEST(Compare, FindsEveryDifferingBitAndNothingElse) {
  const Scratch scratch;
  save(scratch / "1.h5", metas());
  EXPECT_THAT(compare(scratch / "1.h5", scratch / "1.h5"), IsEmpty());
  std::string bytes = bytes_of(scratch / "1.h5");
  const std::uint64_t at = *Reader(scratch / "1.h5").find("model/conv.weight")->offset;
  bytes[at + 4 * 5 + 3] = static_cast<char>(bytes[at + 4 * 5 + 3] ^ 0x81);
  bytes[at + 4 * 7] = static_cast<char>(bytes[at + 4 * 7] ^ 0x01);
  write_bytes(scratch / "2.h5", bytes);
  const auto found = compare(scratch / "1.h5", scratch / "2.h5");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].path, "model/conv.weight");
  EXPECT_EQ(found[0].kind, "values");
  EXPECT_EQ(found[0].elements, 2U);
  EXPECT_EQ(found[0].bits, 3U);
  EXPECT_EQ(found[0].first_element, 5U);
  EXPECT_EQ(found[0].first_old ^ found[0].first_new, 0x81000000U);
}

TEST(Compare, SeesNanPayloadsSignsOfZeroAndAttributes) {
  const Scratch scratch;
  const NumberFormat format = number_format("float32").value();
  const auto write = [&](const char* name, std::uint32_t pattern, const char* spec) {
    Writer writer(scratch / name, {{"w", format, {1}}}, {{"spec", spec}});
    writer.tensor("w", &pattern, 4);
    writer.commit();
  };
  write("1.h5", 0x7fc00000, "a");
  write("2.h5", 0x7fc00001, "b");
  const auto found = compare(scratch / "1.h5", scratch / "2.h5");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].path, "@spec");
  EXPECT_EQ(found[1].path, "checksum/crc32c");
  EXPECT_EQ(found[2].path, "w");
  EXPECT_EQ(found[2].bits, 1U);
}

}  // namespace
}  // namespace bitrift::ckpt::ckpt_test
