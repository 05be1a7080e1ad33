// The plane metadata: which bytes it has, and which of their bits are drawn.
#include "inject/draw/metadata.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/permutation.h"
#include "core/philox.h"
#include "unit/inject/written.h"
#include "unit/scratch.h"

namespace bitrift::inject::metadata_test {
namespace {

using testing::bytes_of;
using testing::Hits;
using testing::Scratch;

/// Contiguous, compact and chunked values; "v.h5.values" lists their bytes as HDF5 places them.
std::filesystem::path mixed(const Scratch& scratch) {
  const auto path = scratch / "v.h5";
  EXPECT_TRUE(testing::python(path, R"(
with h5py.File(path, 'w') as f:
    f['plain'] = np.arange(50, dtype='<f4')
    f.create_dataset('packed', data=np.arange(90), chunks=(20,), compression='gzip')
    f['plain'].attrs['note'] = 'text'
with h5py.File(path) as f, open(path + '.values', 'w') as out:
    d = f['plain'].id
    print(d.get_offset(), d.get_storage_size(), file=out)
    p = f['packed'].id
    for i in range(p.get_num_chunks()):
        print(p.get_chunk_info(i).byte_offset, p.get_chunk_info(i).size, file=out)
)"));
  return path;
}

/// Offsets of all bytes that are not values.
std::vector<std::uint64_t> other_bytes(const std::filesystem::path& path) {
  std::vector<bool> value(std::filesystem::file_size(path));
  std::ifstream list(path.string() + ".values");
  for (std::uint64_t first = 0, size = 0; list >> first >> size;)
    std::fill_n(value.begin() + static_cast<std::ptrdiff_t>(first), size, true);
  std::vector<std::uint64_t> bytes;
  for (std::uint64_t at = 0; at < value.size(); ++at) {
    if (!value[at]) bytes.push_back(at);
  }
  return bytes;
}

record::FaultModel metadata_model(std::uint64_t count, std::uint64_t seed = 3) {
  record::FaultModel model;
  model.plane = record::Plane::metadata;
  model.count = count;
  model.seed = seed;
  return model;
}

TEST(MetadataExtents, AreAllBytesBesideTheValuesOnceAndAscending) {
  const Scratch scratch;
  const ckpt::Reader reader(mixed(scratch));
  std::vector<std::uint64_t> bytes;
  for (const ckpt::ByteExtent& extent : reader.container().metadata()) {
    EXPECT_LT(extent.first, extent.end);
    EXPECT_FALSE(extent.structure.empty());
    for (std::uint64_t at = extent.first; at < extent.end; ++at) bytes.push_back(at);
  }
  EXPECT_EQ(bytes, other_bytes(reader.path()));
  EXPECT_EQ(reader.container().metadata().front().structure, "superblock");
}

TEST(MetadataPlan, DrawsTheDocumentedPermutationOfTheirBits) {
  const Scratch scratch;
  const ckpt::Reader reader(mixed(scratch));
  const std::vector<std::uint64_t> bytes = other_bytes(reader.path());
  const std::string stored = bytes_of(reader.path());
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Permutation order(8 * bytes.size(), derive_key(seed, "inject.metadata"));
    Hits expected;
    for (std::uint64_t i = 0; i < 300; ++i) {
      const std::uint64_t byte = bytes[order(i) / 8];
      testing::Hit& hit = expected[{"", byte}];
      hit.before = static_cast<std::uint8_t>(stored[byte]);
      hit.bits |= std::uint64_t{1} << order(i) % 8;
      hit.after = hit.before ^ hit.bits;
    }
    const Plan drawn = plan_metadata(reader, metadata_model(300, seed));
    EXPECT_EQ(testing::hits_of(drawn.list), expected);
    EXPECT_EQ(drawn.census.bits, 8 * bytes.size());
    EXPECT_EQ(drawn.census.elements, bytes.size());
  }
}

TEST(MetadataPlan, NamesTheStructureOfEachByte) {
  const Scratch scratch;
  const ckpt::Reader reader(mixed(scratch));
  const Plan drawn = plan_metadata(reader, metadata_model(8 * other_bytes(reader.path()).size()));
  const auto extents = reader.container().metadata();
  for (const record::AppliedFault& fault : drawn.faults()) {
    const auto at = std::find_if(extents.begin(), extents.end(), [&](const ckpt::ByteExtent& extent) {
      return extent.first <= fault.element && fault.element < extent.end;
    });
    ASSERT_NE(at, extents.end());
    EXPECT_EQ(fault.structure, at->structure);
    EXPECT_EQ(fault.new_pattern, fault.old_pattern ^ 0xff);
  }
  std::set<std::string> structures;
  for (const record::FaultSite& site : drawn.list.sites)
    EXPECT_TRUE(structures.insert(site.structure).second);
  EXPECT_TRUE(structures.contains("object header of /plain"));
}

TEST(MetadataPlan, RefusesWhatThePlaneDoesNotHave) {
  const Scratch scratch;
  const ckpt::Reader reader(mixed(scratch));
  const auto refuse = [&](auto change, const char* text) {
    record::FaultModel model = metadata_model(1);
    change(model);
    EXPECT_ERROR(static_cast<void>(plan_metadata(reader, model)), bad_input, text);
  };
  refuse([](auto& m) { m.layers = {"first"}; }, "no layers to choose");
  refuse([](auto& m) { m.measure = record::Measure::element; }, "no other measure than bit");
  refuse([](auto& m) { m.count.reset(), m.fraction = 0.5; }, "no other amount than a count");
  refuse([](auto& m) { m.count.reset(), m.ber = 0.5; }, "no other amount than a count");
  refuse([](auto& m) { m.as = {{"*", "int8"}}; }, "no tensors to read as another format");
  refuse([](auto& m) { m.scope.count = 1; }, "no scope");
}

}  // namespace
}  // namespace bitrift::inject::metadata_test
