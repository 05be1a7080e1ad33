#include <algorithm>
#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/file.h"
#include "core/subprocess.h"
#include "h5/create.h"
#include "h5/file.h"
#include "h5/library.h"
#include "h5/number_type.h"
#include "unit/scratch.h"

namespace bitrift::h5 {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using testing::python;
using testing::Scratch;
using testing::write_bytes;

constexpr const char* kFormats[] = {"float64", "float32", "float16", "bfloat16", "int8",   "int16",
                                    "int32",   "int64",   "uint8",   "uint16",   "uint32", "uint64"};

void write_blueprint(const std::filesystem::path& path, const Blueprint& blueprint) {
  std::string bytes(blueprint.file_bytes, '\0');
  std::copy(blueprint.head.begin(), blueprint.head.end(), bytes.begin());
  write_bytes(path, bytes);
}

std::filesystem::path small_file(const Scratch& scratch, const char* name = "small.h5") {
  const auto path = scratch / name;
  write_blueprint(path, lay_out({{"group/w", number_format("float32"), 0, {2, 3}}}, {{"spec", "text"}}));
  return path;
}

TEST(NumberType, EveryFormatInBothOrdersIsRecognisedAgain) {
  for (const char* name : kFormats) {
    for (const ByteOrder order : {ByteOrder::little, ByteOrder::big}) {
      NumberFormat format = number_format(name).value();
      if (format.bytes > 1) format.order = order;
      const Handle type = make_type(format);
      const TypeInfo info = describe_type(type.get(), "test");
      ASSERT_TRUE(info.format.has_value()) << name;
      EXPECT_EQ(*info.format, format) << name;
      EXPECT_EQ(info.name, name);
      EXPECT_EQ(info.bytes, format.bytes);
      EXPECT_TRUE(info.plain);
    }
  }
}

TEST(NumberType, WhatOnlyResemblesAFormatIsNotTakenForIt) {
  const Scratch scratch;
  const auto path = scratch / "odd.h5";
  ASSERT_TRUE(python(path, R"(
from h5py import h5t, h5s, h5d
def floating(file, name, fields, precision, size, bias, offset=0):
    t = h5t.IEEE_F64LE.copy()
    t.set_fields(*fields); t.set_precision(precision); t.set_offset(offset); t.set_size(size); t.set_ebias(bias)
    h5d.create(file.id, name, t, h5s.create_simple((3,)))
with h5py.File(path, 'w') as f:
    floating(f, b'bias', (15, 10, 5, 0, 10), 16, 2, 14)
    floating(f, b'e5m2', (7, 2, 5, 0, 2), 8, 1, 15)
    floating(f, b'wide', (15, 10, 5, 0, 10), 16, 4, 15)
    t = h5t.STD_I32LE.copy(); t.set_precision(24); h5d.create(f.id, b'int24', t, h5s.create_simple((3,)))
    t = h5t.IEEE_F32LE.copy(); t.set_norm(h5t.NORM_NONE); h5d.create(f.id, b'norm', t, h5s.create_simple((3,)))
    f['long_double'] = np.zeros(2, np.longdouble)
)"));
  const auto datasets = File(path).datasets();
  EXPECT_EQ(datasets.size(), 6U);
  for (const DatasetInfo& dataset : datasets)
    EXPECT_FALSE(dataset.type.format) << dataset.path << " " << dataset.type.name;
}

TEST(Create, TheSameRequestGivesTheSameBytesLaterAndElsewhere) {
  std::vector<NewDataset> datasets;
  for (const char* name : kFormats)
    datasets.push_back({std::string("a/b/") + name, number_format(name), 0, {7}});
  datasets.push_back({"text", std::nullopt, 5, {3}});
  const Blueprint one = lay_out(datasets, {{"spec", std::string(100'000, 'x')}});
  ::usleep(1'100'000);  // time stamps have a resolution of one second
  const Blueprint two = lay_out(datasets, {{"spec", std::string(100'000, 'x')}});
  EXPECT_EQ(one.head, two.head);
  EXPECT_EQ(one.offsets, two.offsets);
  EXPECT_EQ(one.file_bytes, two.file_bytes);
}

TEST(Create, ElementsLieBehindTheHeadInTheOrderGivenAndEndTheFile) {
  std::vector<NewDataset> datasets;
  for (int i = 0; i < 500; ++i)
    datasets.push_back({"model/layer" + std::to_string(i) + ".weight", number_format("float32"), 0, {10}});
  const Blueprint blueprint = lay_out(datasets, {});
  EXPECT_TRUE(std::is_sorted(blueprint.offsets.begin(), blueprint.offsets.end()));
  for (std::size_t i = 1; i < datasets.size(); ++i)
    EXPECT_EQ(blueprint.offsets[i] - blueprint.offsets[i - 1], 40U);
  EXPECT_LE(blueprint.head.size(), blueprint.offsets.front());
  EXPECT_EQ(blueprint.file_bytes, blueprint.offsets.back() + 40);
}

TEST(Create, H5pySeesNamesTypesShapesAndAttributes) {
  const Scratch scratch;
  const auto path = scratch / "made.h5";
  write_blueprint(path, lay_out({{"m/half", number_format("float16"), 0, {2, 0, 3}},
                                 {"m/scalar", number_format("int64"), 0, {}},
                                 {"m/w.x", number_format("bfloat16"), 0, {4}},
                                 {"names", std::nullopt, 9, {2}}},
                                {{"schema", "1"}, {"spec", "\xC3\xA9"}}));
  EXPECT_TRUE(python(path, R"(
with h5py.File(path) as f:
    assert sorted(f) == ['m', 'names'] and sorted(f['m']) == ['half', 'scalar', 'w.x']
    assert f['m/half'].dtype == '<f2' and f['m/half'].shape == (2, 0, 3)
    assert f['m/scalar'].dtype == '<i8' and f['m/scalar'].shape == () and f['m/scalar'][()] == 0
    assert f['m/w.x'][()].dtype == np.float32 and f['m/w.x'].id.get_type().get_ebias() == 127
    assert f['names'].dtype == 'S9' and list(f['names']) == [b'', b'']
    assert dict(f.attrs) == {'schema': '1', 'spec': '\u00e9'}
    assert all(f[n].chunks is None for n in ('m/scalar', 'names'))
)"));
}

TEST(Create, RefusedNamesAreErrorsAndTheNextFileIsFine) {
  EXPECT_ERROR(static_cast<void>(
                   lay_out({{"a", number_format("int8"), 0, {1}}, {"a", number_format("int8"), 0, {1}}}, {})),
               bad_input, "a");
  EXPECT_ERROR(static_cast<void>(lay_out(
                   {{"a", number_format("int8"), 0, {1}}, {"a/b", number_format("int8"), 0, {1}}}, {})),
               bad_input, "a");
  EXPECT_EQ(lay_out({{"a", number_format("int8"), 0, {1}}}, {}).offsets.size(), 1U);
}

TEST(File, EveryCutOfAFileIsRefusedOrReadWithoutTheMissingBytes) {
  const Scratch scratch;
  const std::string whole = bytes_of(small_file(scratch));
  const auto path = scratch / "cut.h5";
  for (std::size_t size = 0; size < whole.size(); size += size < 2048 ? 31 : 997) {
    write_bytes(path, whole.substr(0, size));
    EXPECT_ERROR(File file(path), bad_file, path.string());
  }
}

TEST(File, TenThousandBadOpensLeakNothing) {
  const Scratch scratch;
  const auto path = scratch / "bad.h5";
  write_bytes(path, bytes_of(small_file(scratch)).substr(0, 300));
  const auto fail_once = [&] { EXPECT_ERROR(File file(path), bad_file, "bad.h5"); };
  for (int i = 0; i < 500; ++i) fail_once();
  rusage before{};
  ::getrusage(RUSAGE_SELF, &before);
  for (int i = 0; i < 10'000; ++i) fail_once();
  rusage after{};
  ::getrusage(RUSAGE_SELF, &after);
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 2048) << "KiB";
#endif
}

TEST(File, AChildDoesNotKeepTheLockOfAFileThatWasClosed) {
  const Scratch scratch;
  const auto path = small_file(scratch);
  std::optional<File> file(path);
  Subprocess child({.arguments = {"sleep", "20"}, .environment = {}, .output = {}});
  EXPECT_ERROR(lock_exclusive(open_file(path, O_RDWR), path), busy, "in use");
  file.reset();
  EXPECT_NO_THROW(lock_exclusive(open_file(path, O_RDWR), path));
}

TEST(File, ManyThreadsMayReadAtOnce) {
  const Scratch scratch;
  const auto path = small_file(scratch);
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) good += File(path).datasets().size() == 1 ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 200);
}

TEST(File, OffsetsAndBytesAreThoseOfH5py) {
  const Scratch scratch;
  const auto path = scratch / "block.h5";
  ASSERT_TRUE(python(path, R"(
with h5py.File(path, 'w', userblock_size=1024) as f:
    f['w'] = np.arange(6, dtype='>i2')
    f.create_dataset('nothing', shape=(3,), dtype='<f4')
    open(path + '.offset', 'w').write(str(f['w'].id.get_offset()))
)"));
  const File file(path);
  const auto datasets = file.datasets();
  ASSERT_EQ(datasets.size(), 2U);
  EXPECT_FALSE(datasets[0].offset);  // never allocated: HDF5 itself would give a place
  EXPECT_EQ(datasets[1].offset, std::stoull(bytes_of(path.string() + ".offset")));
  std::vector<std::uint8_t> bytes(12);
  file.read(datasets[1], bytes.data(), bytes.size());
  EXPECT_THAT(bytes, ElementsAre(0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5));
}

TEST(File, AttributesOfAllStringKindsAreRead) {
  const Scratch scratch;
  const auto path = scratch / "attributes.h5";
  ASSERT_TRUE(python(path, R"(
with h5py.File(path, 'w') as f:
    f.attrs['variable'] = 'text'
    f.attrs['fixed'] = np.bytes_(b'fixed')
    f.attrs['number'] = 5
    f.attrs['list'] = ['a', 'b']
    f.attrs['empty'] = ''
)"));
  const auto found = File(path).attributes();
  EXPECT_EQ(found,
            (std::map<std::string, std::string>{{"variable", "text"}, {"fixed", "fixed"}, {"empty", ""}}));
}

TEST(File, ElementCountsSaturate) {
  EXPECT_EQ(element_count({}), 1U);
  EXPECT_EQ(element_count({3, 0, 1ULL << 63, 4}), 0U);
  EXPECT_EQ(element_count({1ULL << 40, 1ULL << 40}), ~0ULL);
}

TEST(Handle, AMovedFromHandleHoldsNothing) {
  Handle one = make_type(number_format("float32").value());
  const std::int64_t id = one.get();
  Handle two = std::move(one);
  EXPECT_FALSE(static_cast<bool>(one));  // NOLINT(bugprone-use-after-move): that is the point
  EXPECT_EQ(two.get(), id);
  two = Handle();
  EXPECT_ERROR(static_cast<void>(describe_type(id, "closed")), bad_file, "closed");
}

}  // namespace
}  // namespace bitrift::h5
