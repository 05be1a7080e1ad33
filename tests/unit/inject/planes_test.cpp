// Faults beside the values: stored bytes without their checksum, and the file's own structures.
#include <bit>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ckpt/format/hdf5_values.h"
#include "core/error.h"
#include "inject/draw/fault_plan.h"
#include "inject/stored_bytes.h"
#include "inject/write/patch.h"
#include "inject/write/write_patch.h"
#include "sink/format/writer.h"
#include "tests_support.h"
#include "unit/scratch.h"

namespace bitrift::inject::planes_test {
namespace {

using testing::bytes_of;
using ::testing::HasSubstr;
using testing::Scratch;
using tests::error_of;

std::filesystem::path checkpoint(const Scratch& scratch, std::vector<std::uint64_t> shape = {64}) {
  const std::vector<ckpt::TensorMeta> metas = {
      {"model/a.weight", number_format("float32").value(), std::move(shape)}};
  ckpt::Writer writer(scratch / "c.h5", metas, {});
  const std::vector<float> values(metas[0].elements(), 0.5F);
  writer.tensor(metas[0].path, values.data(), metas[0].bytes());
  writer.commit();
  return scratch / "c.h5";
}

record::FaultModel model_on(record::Plane plane, std::uint64_t count) {
  record::FaultModel model;
  model.plane = plane;
  model.count = count;
  model.seed = 3;
  if (plane != record::Plane::metadata) model.tensors = {"model/**"};
  return model;
}

std::vector<std::size_t> differing_bytes(const std::string& a, const std::string& b) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b.at(i)) places.push_back(i);
  }
  return places;
}

// The file's bytes after the faults, and after taking them back.
std::string altered(const std::filesystem::path& path, const std::vector<record::AppliedFault>& faults) {
  const auto before = bytes_of(path);
  const ckpt::Reader reader(path);
  const Patch patch = make_patch(reader, faults);
  const FileRun file({path}, O_RDWR);
  write_patch(file, patch, false);
  auto after = bytes_of(path);
  write_patch(file, patch, true);
  EXPECT_EQ(bytes_of(path), before);
  return after;
}

TEST(Planes, AStorageFaultLeavesTheChecksumBehind) {
  const Scratch scratch;
  const auto path = checkpoint(scratch);
  const ckpt::Reader reader(path);
  const auto before = bytes_of(path);
  const auto value = plan(reader, model_on(record::Plane::value, 1)).faults();
  const auto storage = plan(reader, model_on(record::Plane::storage, 1)).faults();
  ASSERT_EQ(storage.size(), 1U);
  EXPECT_EQ(storage[0].plane, record::Plane::storage);
  EXPECT_EQ(storage[0].new_pattern, value[0].new_pattern);  // the same bits
  EXPECT_EQ(differing_bytes(before, altered(path, storage)).size(), 1U);
  EXPECT_GT(differing_bytes(before, altered(path, value)).size(), 1U);
}

/// Five chunks of "w" with deflate, one of them cut by the edge, and a plain "p".
std::filesystem::path packed(const Scratch& scratch) {
  const auto path = scratch / "packed.h5";
  EXPECT_TRUE(testing::python(path, R"(
with h5py.File(path, "w") as f:
    f.create_dataset("w", data=np.arange(90, dtype="<f4").reshape(9, 10), chunks=(2, 10), compression="gzip")
    f["p"] = np.ones(3, "<f4")
)"));
  return path;
}

TEST(Planes, StoredBytesAreCountedChunkByChunk) {
  const Scratch scratch;
  const ckpt::Reader reader(packed(scratch));
  const StoredBytes stored(reader, "w");
  EXPECT_EQ(stored.bytes(), reader.find("w")->stored_bytes);
  const auto chunks = dynamic_cast<const ckpt::Hdf5Values&>(reader.values(*reader.find("w"))).chunks()->all();
  ASSERT_EQ(chunks.size(), 5U);
  std::uint64_t i = 0;
  for (const h5map::Chunk& chunk : chunks) {
    for (std::uint64_t k = 0; k < chunk.bytes; ++k, ++i) {
      const StoredBytes::Place place = stored.place(i);
      EXPECT_EQ(place.chunk, chunk.cell);
      EXPECT_EQ(place.offset, chunk.offset + k);
      EXPECT_EQ(place.run, chunk.bytes - k);
      EXPECT_TRUE(stored.holds(place.offset));
    }
  }
  EXPECT_EQ(i, stored.bytes());
  std::uint64_t held = 0;
  for (std::uint64_t at = 0; at < bytes_of(reader.path()).size(); ++at) held += stored.holds(at) ? 1 : 0;
  EXPECT_EQ(held, stored.bytes());
  EXPECT_THAT(error_of([&] { static_cast<void>(stored.place(i)); }), HasSubstr("stored byte"));
  EXPECT_THAT(error_of([&] { const StoredBytes none(reader, "p"); }), HasSubstr("no chunks with filters"));
  EXPECT_THAT(error_of([&] { const StoredBytes none(reader, "q"); }), HasSubstr("has no tensor q"));
}

TEST(Planes, EveryStoredBitBehindFiltersIsDrawnOnceAndNamedByItsChunk) {
  const Scratch scratch;
  const auto path = packed(scratch);
  const ckpt::Reader reader(path);
  const StoredBytes stored(reader, "w");
  record::FaultModel model = model_on(record::Plane::storage, 8 * stored.bytes() + 3 * 32);
  model.tensors = {"*"};
  const Plan drawn = plan(reader, model);
  EXPECT_EQ(drawn.census.bits, *model.count);
  EXPECT_EQ(drawn.census.strata.back().name(), "unknown.any");
  EXPECT_EQ(drawn.census.strata.back().bits, 8 * stored.bytes());
  const auto before = bytes_of(path);
  const auto after = altered(path, drawn.faults());
  for (const std::size_t byte : differing_bytes(before, after)) EXPECT_EQ(before[byte] ^ after[byte], ~0);
  EXPECT_EQ(differing_bytes(before, after).size(), stored.bytes() + 12);
  std::uint64_t bits = 0;
  for (const record::AppliedFault& fault : drawn.faults()) {
    bits += fault.bits.size();
    EXPECT_EQ(fault.tensor == "w", fault.structure.starts_with("raw chunk ")) << fault.structure;
    EXPECT_EQ(fault.tensor == "w", fault.field.empty());
  }
  EXPECT_EQ(bits, *model.count);
}

TEST(Planes, TheStoredBytesOfACompoundAreOneTarget) {
  const Scratch scratch;
  const auto path = scratch / "c.h5";
  ASSERT_TRUE(testing::python(path, R"(
with h5py.File(path, 'w') as f:
    d = np.zeros(100, dtype=[('a', '<f4'), ('b', '<i4')])
    d['a'] = np.arange(100)
    f.create_dataset('model/c', data=d, chunks=(50,), compression='gzip')
    open(path + '.bytes', 'w').write(str(f['model/c'].id.get_storage_size()))
)"));
  const ckpt::Reader reader(path);
  ASSERT_EQ(reader.find("model/c"), nullptr);  // only its members are tensors
  const Plan drawn = plan(reader, model_on(record::Plane::storage, 5));
  EXPECT_EQ(drawn.census.bits, 8 * std::stoull(bytes_of(path.string() + ".bytes")));
  for (const auto& fault : drawn.faults()) EXPECT_EQ(fault.tensor, "model/c");
}

TEST(Planes, MetadataFaultsFlipTheAskedBitsOutsideTheValues) {
  const Scratch scratch;
  const auto path = checkpoint(scratch);
  const ckpt::Reader reader(path);
  const auto before = bytes_of(path);
  const ckpt::TensorInfo& tensor = *reader.find("model/a.weight");
  const Plan drawn = plan(reader, model_on(record::Plane::metadata, 200));
  std::uint64_t values = 0;
  for (const ckpt::TensorInfo& one : reader.tensors()) values += one.stored_bytes;
  EXPECT_EQ(drawn.census.bits, 8 * (before.size() - values));
  const auto after = altered(path, drawn.faults());
  unsigned flipped = 0;
  for (const std::size_t byte : differing_bytes(before, after)) {
    EXPECT_TRUE(byte < *tensor.offset || byte >= *tensor.offset + tensor.stored_bytes) << byte;
    flipped += static_cast<unsigned>(std::popcount(static_cast<std::uint8_t>(before[byte] ^ after[byte])));
  }
  EXPECT_EQ(flipped, 200U);
}

TEST(Planes, EveryBitOutsideTheValuesCanBeDrawn) {
  const Scratch scratch;
  const ckpt::Reader reader(checkpoint(scratch));
  const std::uint64_t all = plan(reader, model_on(record::Plane::metadata, 1)).census.bits;
  std::uint64_t bits = 0;
  for (const auto& fault : plan(reader, model_on(record::Plane::metadata, all)).faults())
    bits += fault.bits.size();
  EXPECT_EQ(bits, all);
  EXPECT_THAT(error_of([&] { static_cast<void>(plan(reader, model_on(record::Plane::metadata, all + 1))); }),
              HasSubstr("bits that are targeted"));
}

TEST(Planes, MetadataHasNeitherTensorsNorFields) {
  const Scratch scratch;
  const ckpt::Reader reader(checkpoint(scratch));
  const auto refusal = [&](auto change) {
    record::FaultModel model = model_on(record::Plane::metadata, 1);
    change(model);
    return error_of([&] { static_cast<void>(plan(reader, model)); });
  };
  EXPECT_THAT(refusal([](auto& model) { model.tensors = {"model/**"}; }), HasSubstr("no tensors to choose"));
  EXPECT_THAT(refusal([](auto& model) { model.roles = {"weight"}; }), HasSubstr("no roles to choose"));
  EXPECT_THAT(refusal([](auto& model) { model.bits = "sign"; }), HasSubstr("no bit fields"));
  EXPECT_THAT(refusal([](auto& model) { model.what = record::FaultKind::zero; }), HasSubstr("no other kind"));
  EXPECT_THAT(refusal([](auto& model) { model.count.reset(); }), HasSubstr("no other amount"));
}

TEST(Planes, AMetadataFaultOfAnotherFileIsRefused) {
  const Scratch scratch;
  const ckpt::Reader reader(checkpoint(scratch));
  auto faults = plan(reader, model_on(record::Plane::metadata, 1)).faults();
  faults[0].old_pattern ^= 1;
  EXPECT_THAT(error_of([&] { static_cast<void>(make_patch(reader, faults)); }),
              HasSubstr("the fault was drawn for"));
}

}  // namespace
}  // namespace bitrift::inject::planes_test
