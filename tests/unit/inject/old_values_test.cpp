#include "inject/draw/old_values.h"

#include <cstring>

#include <gtest/gtest.h>

#include "core/philox.h"
#include "unit/scratch.h"

namespace bitrift::inject::old_values_test {
namespace {

using testing::bytes_of;
using testing::Scratch;

/// Element i of each tensor is i: large enough for several blocks, in either byte order, plain and in chunks.
std::filesystem::path counted(const Scratch& scratch) {
  const auto path = scratch / "v.h5";
  EXPECT_TRUE(testing::python(path, R"(
with h5py.File(path, 'w') as f:
    f['a'] = np.arange(600_000, dtype='<f4')
    f['b'] = np.arange(300_000, dtype='>i8')
    f.create_dataset('c', data=np.arange(200_000, dtype='<u4').reshape(1000, 200), chunks=(64, 33), compression='gzip')
    f.create_dataset('d', data=np.arange(5_000, dtype='<u2'), chunks=(999,), compression='gzip', shuffle=True)
)"));
  return path;
}

std::uint64_t pattern_of(const Target& target, std::uint64_t element) {
  if (target.path != "a") return element;
  const auto value = static_cast<float>(element);  // below 2^24: exact
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

void expect_values(OldValues& values, const std::vector<Sample>& batch) {
  values.read(batch);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Population::Location& where = batch[i].where;
    ASSERT_EQ(values.old(i), pattern_of(*where.target, where.element))
        << where.target->path << " " << where.element;
  }
}

TEST(OldValues, AreThoseOfTheirElementsInAnyOrderOfSamples) {
  const Scratch scratch;
  const ckpt::Reader reader(counted(scratch));
  const Population population(reader, {}, {}, "any");
  OldValues values(reader, population);
  for (const std::size_t count : {1U, 7U, 1000U, 30'000U}) {
    std::vector<Sample> batch;
    for (std::uint64_t i = 0; i < count; ++i)
      batch.push_back({population.locate_element(random_below(count, i, 0, population.elements())), i});
    expect_values(values, batch);
  }
}

TEST(OldValues, AreReadAcrossGapsBlocksAndTargets) {
  const Scratch scratch;
  const ckpt::Reader reader(counted(scratch));
  const Population population(reader, {}, {}, "any");
  OldValues values(reader, population);
  // Gaps of 4096 bytes and of one element more or less; a run of 1 MiB and more; every end.
  for (const std::uint64_t step : {1U, 1023U, 1024U, 1025U}) {
    std::vector<Sample> batch;
    for (std::uint64_t element = 0; element < population.elements(); element += step)
      batch.push_back({population.locate_element(element), element});
    for (const Target& target : population.targets()) {
      batch.push_back({{&target, target.elements - 1, 0}, 0});
      batch.push_back({{&target, 0, 0}, 0});
    }
    expect_values(values, batch);
  }
}

TEST(OldValues, OfStoredBytesAreThoseOfTheFile) {
  const Scratch scratch;
  const ckpt::Reader reader(counted(scratch));
  record::FaultModel model;
  model.count = 1;
  model.plane = record::Plane::storage;
  model.tensors = {"d"};
  const Population population(reader, model);
  ASSERT_TRUE(population.targets().at(0).stored);
  std::vector<Sample> batch;
  for (std::uint64_t i = 0; i < population.elements(); ++i)
    batch.push_back({population.locate_element(i), i});
  OldValues values(reader, population);
  values.read(batch);
  std::string stored;
  for (std::size_t i = 0; i < batch.size(); ++i) stored += static_cast<char>(values.old(i));
  testing::write_bytes(scratch / "v.h5.stored", stored);
  // Chunks by their place in the grid, as HDF5 gives them.
  EXPECT_TRUE(testing::python(scratch / "v.h5", R"(
with h5py.File(path) as f:
    d = f['d'].id
    chunks = b''.join(d.read_direct_chunk((at,))[1] for at in range(0, 5_000, 999))
    assert chunks == open(path + '.stored', 'rb').read()
)"));
}

}  // namespace
}  // namespace bitrift::inject::old_values_test
