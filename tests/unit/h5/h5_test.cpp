#include <algorithm>
#include <ctime>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/number/shape.h"
#include "h5/create.h"
#include "h5/library.h"
#include "h5/number_type.h"
#include "tests_support.h"
#include "unit/scratch.h"

namespace bitrift::h5::h5_test {
namespace {

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

TEST(NumberType, EveryFormatInBothOrdersIsWhatH5pyTakesItFor) {
  const Scratch scratch;
  const auto path = scratch / "formats.h5";
  std::vector<NewDataset> datasets;
  for (const char* name : kFormats) {
    for (const ByteOrder order : {ByteOrder::little, ByteOrder::big}) {
      NumberFormat format = number_format(name).value();
      if (format.bytes > 1) format.order = order;
      datasets.push_back({std::string(name) + (order == ByteOrder::little ? "<" : ">"), format, 0, {3}});
    }
  }
  write_blueprint(path, lay_out(datasets, {}));
  EXPECT_TRUE(python(path, R"(
with h5py.File(path) as f:
    assert len(f) == 24
    for name in f:
        t = f[name].id.get_type()
        if name.startswith('bfloat16'):
            assert (t.get_size(), t.get_fields(), t.get_ebias(), t.get_order()) == (2, (15, 7, 8, 0, 7), 127, '<>'.index(name[-1]))
        else:
            assert f[name].dtype == np.dtype(name[-1] + np.dtype(name[:-1]).str[1:]), name
)"));
}

TEST(Create, TheSameRequestGivesTheSameBytesLaterAndElsewhere) {
  std::vector<NewDataset> datasets;
  for (const char* name : kFormats)
    datasets.push_back({std::string("a/b/") + name, number_format(name), 0, {7}});
  datasets.push_back({"text", std::nullopt, 5, {3}});
  const Blueprint one = lay_out(datasets, {{"spec", std::string(100'000, 'x')}});
  const auto second = std::time(nullptr);  // the resolution of time stamps in a file
  ASSERT_TRUE(tests::wait_until([&] { return std::time(nullptr) > second; }));
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

TEST(Create, StructuresTakeLittleMoreRoomThanTheyNeed) {
  std::vector<NewDataset> datasets;
  for (const std::size_t count : {1U, 10U, 200U, 1000U}) {
    while (datasets.size() < count) {
      datasets.push_back({"model/layer" + std::to_string(1000 + datasets.size()) + ".weight",
                          number_format("float32"),
                          0,
                          {3}});
    }
    const Blueprint blueprint = lay_out(datasets, {{"schema", "1"}});
    EXPECT_LT(blueprint.file_bytes - 12 * count, 170 * count + 6500) << count;
    EXPECT_EQ(blueprint.head[8], 2);  // the superblock's version: HDF5 1.8 reads it
  }
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

TEST(Create, ElementCountsSaturate) {
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
  EXPECT_FALSE(static_cast<bool>(two));
}

}  // namespace
}  // namespace bitrift::h5::h5_test
