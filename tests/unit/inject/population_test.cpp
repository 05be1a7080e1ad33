// The flat list that faults are drawn from: its order, its inverse, its largest size.
#include "inject/draw/population.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "inject/draw/fault_plan.h"
#include "unit/inject/written.h"
#include "unit/scratch.h"

namespace bitrift::inject::population_test {
namespace {

using testing::Scratch;
using testing::write_tensors;

TEST(FlatIndex, RunsOverTensorsByPathThenElementsThenBits) {
  const Scratch scratch;
  // Written in another order than that of their paths.
  const ckpt::Reader reader(write_tensors(scratch / "p.h5", {{"model/z.weight", "float16", {1, 2}},
                                                             {"model/a.weight", "float32", {3, 4, 5}},
                                                             {"model/m.count", "int8", {6}}}));
  const Population population(reader, {}, {}, "any");
  struct Part {
    const char* path;
    std::uint64_t elements;
    unsigned bits;
  };
  std::uint64_t bit = 0;
  std::uint64_t element = 0;
  for (const Part& part :
       {Part{"model/a.weight", 3, 32}, {"model/m.count", 1, 8}, {"model/z.weight", 2, 16}}) {
    for (std::uint64_t e = 0; e < part.elements; ++e, ++element) {
      const Population::Location at = population.locate_element(element);
      EXPECT_EQ(at.target->path, part.path);
      EXPECT_EQ(at.element, e);
      EXPECT_EQ(population.flat_element(at), element);
      for (unsigned b = 0; b < part.bits; ++b, ++bit) {
        const Population::Location where = population.locate(bit);
        EXPECT_EQ(where.target->path, part.path);
        EXPECT_EQ(where.element, e);
        EXPECT_EQ(where.bit, b);
        EXPECT_EQ(population.flat_element(where), element);
      }
    }
  }
  EXPECT_EQ(population.bits(), bit);
  EXPECT_EQ(population.elements(), element);
  EXPECT_ERROR(static_cast<void>(population.locate(bit)), internal, "population of 136");
  EXPECT_ERROR(static_cast<void>(population.locate_element(element)), internal, "population of 6");
}

TEST(FlatIndex, HoldsOnlyTheTargetedBitsAscending) {
  const Scratch scratch;
  const ckpt::Reader reader(write_tensors(
      scratch / "p.h5", {{"model/a.weight", "float32", {1, 2}}, {"model/b.count", "int8", {3}}}));
  const Population some(reader, {}, {}, "7,3,30");
  // A byte has no bit 30, so its tensor is left out.
  ASSERT_EQ(some.targets().size(), 1U);
  EXPECT_EQ(some.bits(), 6U);
  for (std::uint64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(some.locate(i).bit, (std::vector<unsigned>{3, 7, 30}[i % 3]));
    EXPECT_EQ(some.locate(i).element, i / 3);
  }
  EXPECT_ERROR(static_cast<void>(Population(reader, {}, {}, "40-50")), bad_input,
               "none of the 2 chosen tensors has a bit of '40-50'");
  EXPECT_ERROR(static_cast<void>(Population(reader, {}, {}, "sign", true)), bad_input, "besides the sign");
  EXPECT_ERROR(static_cast<void>(Population(reader, {}, {}, "head")), bad_input, "head");
}

TEST(ChosenElement, IsTheOnlyOneInEveryOrderOfDrawing) {
  const Scratch scratch;
  const ckpt::Reader reader(write_tensors(
      scratch / "p.h5", {{"model/a.weight", "float32", {1, 2, 3}}, {"model/b.count", "int8", {3}}}));
  record::FaultModel model;
  model.tensors = {"model/a.weight"};
  model.element = 2;
  model.bits = "22,30";
  const Population population(reader, model);
  EXPECT_EQ(population.elements(), 1U);
  ASSERT_EQ(population.bits(), 2U);
  for (std::uint64_t i = 0; i < 2; ++i) {
    const Population::Location where = population.locate(i);
    EXPECT_EQ(where.element, 2U);
    EXPECT_EQ(where.bit, i == 0 ? 22U : 30U);
    EXPECT_EQ(population.flat_element(where), 0U);
  }
  EXPECT_EQ(population.locate_element(0).element, 2U);
  for (const auto measure : {record::Measure::bit, record::Measure::element, record::Measure::tensor}) {
    record::FaultModel drawn = model;
    drawn.measure = measure;
    set_default_count(reader, drawn);
    EXPECT_EQ(drawn.count, measure == record::Measure::bit ? 2U : 1U);
    const Plan planned = plan(reader, drawn);
    ASSERT_EQ(planned.list.changes.size(), 1U);
    EXPECT_EQ(planned.list.changes[0].element, 2U);
    EXPECT_EQ(planned.list.changes[0].old_pattern, 3U);
    EXPECT_EQ(planned.census.elements, 1U);
  }
}

TEST(ChosenElement, CountsOnlyItsOwnValueWhereValuesDecide) {
  const Scratch scratch;
  const ckpt::Reader reader(
      write_tensors(scratch / "p.h5", {{"model/a.weight", "float32", {0x3f800000, 0x3e800000, 0x3f800000}}}));
  record::FaultModel model;
  model.bits = "30";
  model.allow_nan = false;  // bit 30 makes 1.0F infinite, but not 0.25F
  model.count = 1;
  model.element = 1;
  EXPECT_EQ(plan(reader, model).list.changes.at(0).element, 1U);
  model.element = 2;
  EXPECT_ERROR(static_cast<void>(plan(reader, model)), bad_input, "forbids");
}

TEST(ChosenElement, IsOneOfOneTensor) {
  const Scratch scratch;
  const ckpt::Reader reader(write_tensors(
      scratch / "p.h5", {{"model/a.weight", "float32", {1, 2, 3}}, {"model/b.count", "int8", {3}}}));
  record::FaultModel model;
  model.element = 3;
  EXPECT_ERROR(static_cast<void>(Population(reader, model)), bad_input,
               "needs one tensor, but 2 are chosen (model/a.weight, model/b.count)");
  model.tensors = {"model/a.weight"};
  EXPECT_ERROR(static_cast<void>(Population(reader, model)), bad_input, "numbers from 0 to 2");
  model.plane = record::Plane::metadata;
  model.tensors.clear();
  model.count = 1;
  EXPECT_ERROR(static_cast<void>(plan(reader, model)), bad_input, "no elements to choose");
}

/// A file in memory that is one large hole; the disk's file systems end at less.
class Vast {
 public:
  explicit Vast(const std::vector<std::string>& sizes)
      : path_("/dev/shm/bitrift-unit-vast-" + std::to_string(::getpid()) + ".h5") {
    std::string list;
    for (const std::string& size : sizes) list += size + ", ";
    EXPECT_TRUE(testing::python(path_, "sizes = [" + list + R"(]
with h5py.File(path, 'w') as f:
    how = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    how.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    how.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    for i, size in enumerate(sizes):
        h5py.h5d.create(f.id, b'w%d' % i, h5py.h5t.STD_U8LE, h5py.h5s.create_simple((size,)), how)
)"));
  }
  ~Vast() { std::filesystem::remove(path_); }
  Vast(const Vast&) = delete;
  Vast& operator=(const Vast&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

TEST(Limits, TwoToThe63BitsAreAPopulationAndMoreAreNot) {
  {
    const Vast vast({"2**59", "2**59"});
    const ckpt::Reader reader(vast.path());
    const Population population(reader, {}, {}, "any");
    EXPECT_EQ(population.bits(), std::uint64_t{1} << 63);
    EXPECT_EQ(population.elements(), std::uint64_t{1} << 60);
    const Population::Location last = population.locate((std::uint64_t{1} << 63) - 1);
    EXPECT_EQ(last.target->path, "w1");
    EXPECT_EQ(last.element, (std::uint64_t{1} << 59) - 1);
    EXPECT_EQ(last.bit, 7U);
    EXPECT_EQ(population.flat_element(last), (std::uint64_t{1} << 60) - 1);
  }
  const Vast vast({"2**59", "2**59", "1"});
  const ckpt::Reader reader(vast.path());
  EXPECT_ERROR(static_cast<void>(Population(reader, {}, {}, "any")), bad_input, "more than 2^63 bits");
  EXPECT_EQ(Population(reader, {}, {}, "0-6").bits(), 7 * ((std::uint64_t{1} << 60) + 1));
}

TEST(Kinds, PlacesDependOnWhatFits) {
  const Scratch scratch;
  const ckpt::Reader reader(write_tensors(scratch / "p.h5", {{"model/a.weight", "float32", {1, 2}},
                                                             {"model/b.weight", "float16", {3}},
                                                             {"model/c.count", "uint8", {4}}}));
  const auto bits = [&](auto change) {
    record::FaultModel model;
    model.count = 1;
    change(model);
    return Population(reader, model).bits();
  };
  using record::FaultKind;
  // A burst of n in a field of m adjacent bits has m - n + 1 places.
  EXPECT_EQ(bits([](auto& m) { m.what = FaultKind::burst, m.length = 8; }), 2U * 25 + 9 + 1);
  EXPECT_EQ(bits([](auto& m) { m.what = FaultKind::burst, m.length = 9; }), 2U * 24 + 8);
  EXPECT_EQ(bits([](auto& m) { m.what = FaultKind::burst, m.length = 3, m.bits = "mantissa"; }),
            2U * 21 + 8 + 6);
  EXPECT_EQ(bits([](auto& m) { m.what = FaultKind::burst, m.length = 16, m.keep_sign = true; }), 2U * 16);
  EXPECT_EQ(bits([](auto& m) { m.what = FaultKind::mask, m.mask = "0x8001"; }), 2U + 1);
  EXPECT_ERROR(static_cast<void>(bits([](auto& m) { m.what = FaultKind::burst, m.length = 33; })), bad_input,
               "33 adjacent bits of 'any'");
  EXPECT_ERROR(static_cast<void>(bits([](auto& m) { m.what = FaultKind::mask, m.mask = "0x100000000"; })),
               bad_input, "all bits of the mask 0x100000000 within 'any', aligned to bit 0");
}

}  // namespace
}  // namespace bitrift::inject::population_test
