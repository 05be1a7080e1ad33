#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/crc32c.h"
#include "core/permutation.h"
#include "core/philox.h"
#include "inject/draw/fault_plan.h"
#include "inject/manifest/manifest.h"
#include "inject/manifest/manifest_text.h"
#include "inject/manifest/replay.h"
#include "inject/write/apply.h"
#include "inject/write/patch.h"
#include "inject/write/undo_journal.h"
#include "inject/write/write_patch.h"
#include "sink/format/writer.h"
#include "unit/scratch.h"

namespace bitrift::inject::inject_test {
namespace {

using testing::bytes_of;
using ::testing::ElementsAre;
using testing::python;
using testing::Scratch;
using testing::write_bytes;

/// model/a.weight float32 [6], model/b.bias float16 [4], model/c.count int64 scalar.
std::filesystem::path checkpoint(const Scratch& scratch, const char* name = "c.h5") {
  const std::vector<ckpt::TensorMeta> metas = {{"model/a.weight", number_format("float32").value(), {6}},
                                               {"model/b.bias", number_format("float16").value(), {4}},
                                               {"model/c.count", number_format("int64").value(), {}}};
  const float weights[6] = {1.0F, -2.5F, 0.0F, 3e-5F, 1e30F, -0.125F};
  const std::uint16_t biases[4] = {0x3c00, 0xc000, 0x0001, 0x7bff};
  const std::int64_t count = -3;
  ckpt::Writer writer(scratch / name, metas, {});
  writer.tensor(metas[0].path, weights, sizeof weights);
  writer.tensor(metas[1].path, biases, sizeof biases);
  writer.tensor(metas[2].path, &count, sizeof count);
  writer.commit();
  return scratch / name;
}

record::FaultModel counted_model(std::uint64_t count, std::uint64_t seed = 1) {
  record::FaultModel model;
  model.count = count;
  model.seed = seed;
  return model;
}

TEST(Population, RunsOverEveryTargetedBitOnce) {
  const Scratch scratch;
  const ckpt::Reader reader(checkpoint(scratch));
  const Population population(reader, {}, {}, "any");
  EXPECT_EQ(population.bits(), 6U * 32 + 4 * 16 + 64);
  EXPECT_EQ(population.elements(), 11U);
  std::set<std::tuple<std::string, std::uint64_t, unsigned>> seen;
  for (std::uint64_t i = 0; i < population.bits(); ++i) {
    const auto where = population.locate(i);
    EXPECT_LT(where.element, where.target->elements);
    EXPECT_LT(where.bit, where.target->format.bits());
    seen.emplace(where.target->path, where.element, where.bit);
  }
  EXPECT_EQ(seen.size(), population.bits());
  EXPECT_ERROR(static_cast<void>(population.locate(population.bits())), internal, "population");
}

TEST(Population, FieldsPartitionTheBits) {
  const Scratch scratch;
  const ckpt::Reader reader(checkpoint(scratch));
  std::uint64_t total = 0;
  for (const char* field : {"sign", "exponent", "mantissa"})
    total += Population(reader, {}, {}, field).bits();
  EXPECT_EQ(total, Population(reader, {}, {}, "any").bits());
  EXPECT_EQ(Population(reader, {}, {}, "exponent").targets().size(), 2U);  // the integer has none
  EXPECT_EQ(Population(reader, {}, {}, "any", true).bits(), 6U * 31 + 4 * 15 + 63);
}

TEST(Plan, BitDrawsAreTheDocumentedPermutation) {
  const Scratch scratch;
  const ckpt::Reader reader(checkpoint(scratch));
  const Population population(reader, {}, {}, "any");
  const Permutation order(population.bits(), derive_key(77, "inject"));
  std::map<std::pair<std::string, std::uint64_t>, std::set<unsigned>> expected;
  for (std::uint64_t i = 0; i < 40; ++i) {
    const auto where = population.locate(order(i));
    expected[{where.target->path, where.element}].insert(where.bit);
  }
  const Plan drawn = plan(reader, counted_model(40, 77));
  EXPECT_EQ(drawn.faults().size(), expected.size());
  for (const record::AppliedFault& fault : drawn.faults()) {
    const auto& bits = expected.at({fault.tensor, fault.element});
    EXPECT_EQ(std::set<unsigned>(fault.bits.begin(), fault.bits.end()), bits);
    std::uint64_t mask = 0;
    for (const unsigned bit : bits) mask |= std::uint64_t{1} << bit;
    EXPECT_EQ(fault.old_pattern ^ fault.new_pattern, mask);
  }
}

TEST(Plan, SingleDrawsReachEveryBitAlike) {
  const Scratch scratch;
  const ckpt::Reader reader(checkpoint(scratch));
  record::FaultModel model = counted_model(1);
  model.tensors = {"model/b.bias"};
  std::map<std::pair<std::uint64_t, unsigned>, int> hits;
  constexpr int kDraws = 6400;
  for (int seed = 0; seed < kDraws; ++seed) {
    model.seed = static_cast<std::uint64_t>(seed);
    const Plan drawn = plan(reader, model);
    ++hits[{drawn.faults()[0].element, drawn.faults()[0].bits[0]}];
  }
  EXPECT_EQ(hits.size(), 64U);
  double chi_square = 0;
  for (const auto& [where, count] : hits) chi_square += (count - 100.0) * (count - 100.0) / 100.0;
  EXPECT_LT(chi_square, 112.0);  // 63 degrees of freedom: above it once in 10,000
}

TEST(Plan, PrefixesOfOneSeedAgree) {
  const Scratch scratch;
  const ckpt::Reader reader(checkpoint(scratch));
  const auto bits_of = [&](std::uint64_t count) {
    std::set<std::tuple<std::string, std::uint64_t, unsigned>> bits;
    for (const auto& fault : plan(reader, counted_model(count)).faults()) {
      for (const unsigned bit : fault.bits) bits.emplace(fault.tensor, fault.element, bit);
    }
    return bits;
  };
  const auto few = bits_of(10);
  const auto many = bits_of(100);
  EXPECT_EQ(few.size(), 10U);
  EXPECT_EQ(many.size(), 100U);
  EXPECT_TRUE(std::includes(many.begin(), many.end(), few.begin(), few.end()));
}

TEST(Patch, ChangesTheAskedBytesAndTheirChecksum) {
  const Scratch scratch;
  const auto path = checkpoint(scratch);
  const std::string before = bytes_of(path);
  Patch patch;
  {
    const ckpt::Reader reader(path);
    patch = make_patch(reader, plan(reader, counted_model(60)).faults());
  }
  const FileRun fd({path}, O_RDWR);
  write_patch(fd, patch, false);
  {
    const ckpt::Reader reader(path);
    for (const auto& tensor : reader.tensors()) {
      if (tensor.role == "checksum") continue;
      std::vector<std::uint8_t> bytes(tensor.stored_bytes);
      reader.read(tensor, bytes.data(), bytes.size());
      EXPECT_EQ(reader.checksum(tensor.path)->value, crc32c(bytes.data(), bytes.size())) << tensor.path;
    }
  }
  EXPECT_NE(bytes_of(path), before);
  EXPECT_ERROR(write_patch(fd, patch, false), conflict, "nothing was written");
  write_patch(fd, patch, true);
  EXPECT_EQ(bytes_of(path), before);
}

TEST(Patch, AFaultThatDoesNotFitIsRefused) {
  const Scratch scratch;
  const ckpt::Reader reader(checkpoint(scratch));
  const record::AppliedFault good = plan(reader, counted_model(1)).faults()[0];
  const auto refuse = [&](auto change, const char* text) {
    record::AppliedFault bad = good;
    change(bad);
    EXPECT_ERROR(static_cast<void>(make_patch(reader, {bad})), conflict, text);
  };
  refuse([](auto& f) { f.tensor = "model/none"; }, "no tensor model/none");
  refuse([](auto& f) { f.dtype = "int8"; }, "int8");
  refuse([](auto& f) { f.element = 1000; }, "element 1000");
  refuse([](auto& f) { f.old_pattern ^= 1; }, "was drawn for");
  EXPECT_ERROR(static_cast<void>(make_patch(reader, {good, good})), bad_input, "same element");
}

TEST(Patch, SettingWhatIsSetAlreadyChangesNothing) {
  const Scratch scratch;
  const auto path = checkpoint(scratch);
  const ckpt::Reader reader(path);
  record::FaultModel model = counted_model(6);
  model.tensors = {"model/a.weight"};
  model.what = record::FaultKind::zero;
  const Plan drawn = plan(reader, model);
  EXPECT_EQ(drawn.faults().size(), 6U);  // one of them is zero already, and stays in the list
  EXPECT_EQ(drawn.faults()[2].old_pattern, drawn.faults()[2].new_pattern);
  const Patch patch = make_patch(reader, {drawn.faults()[2]});
  EXPECT_TRUE(patch.ranges.empty());
}

TEST(WholeTensors, NegatesOrPoisonsEveryElement) {
  using enum record::WholeChange;
  const Scratch scratch;
  const auto path = checkpoint(scratch);
  for (const auto change : {negate, nan}) {
    inject_copy(path, scratch / "out.h5", whole_tensors(ckpt::Reader(path), {{"model/b.bias", change}}));
    EXPECT_TRUE(python(scratch / "out.h5", fmt::format("nan = {}", change == nan ? "True" : "False") + R"(
with h5py.File(path) as f:
    bias, old = f['model/b.bias'][()], np.array([0x3c00, 0xc000, 0x0001, 0x7bff], '<u2').view('<f2')
    assert np.isnan(bias).all() if nan else (bias == -old).all()
    assert f['model/a.weight'][0] == 1
)"));
  }
  const ckpt::Reader reader(path);
  EXPECT_EQ(whole_tensors(reader, {{"model/b.bias", nan, 2}}).changes.size(), 2U);
  EXPECT_ERROR(static_cast<void>(whole_tensors(reader, {{"model/c.count", nan}})), unsupported, "int64");
  EXPECT_ERROR(static_cast<void>(whole_tensors(reader, {{"model/none", nan}})), not_found, "model/none");
  EXPECT_ERROR(static_cast<void>(whole_tensors(reader, {{"checksum/crc32c", nan}})), unsupported, "checksum");
}

TEST(FlipAt, FlipsOneBitOfOneElement) {
  const Scratch scratch;
  const ckpt::Reader reader(checkpoint(scratch));
  const Population population(reader, {"model/a.weight"}, {}, "exponent_msb");
  const record::AppliedFault fault = flip_at(reader, population.locate(0));
  EXPECT_EQ(fault.old_pattern, 0x3f800000U);
  EXPECT_EQ(fault.new_pattern, 0x7f800000U);
  EXPECT_EQ(fault.field, "exponent");
  EXPECT_THAT(fault.bits, ElementsAre(30U));
}

TEST(Undo, RestoresAnInjectionThatWasCutAfterAnyByte) {
  const Scratch scratch;
  const auto path = checkpoint(scratch);
  const std::string before = bytes_of(path);
  const record::FaultList faults = plan(ckpt::Reader(path), counted_model(30)).list;
  inject_in_place(path, faults);
  const std::string after = bytes_of(path);
  const std::string journal = bytes_of(undo_path(path));
  std::vector<std::size_t> changed;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i] != after[i]) changed.push_back(i);
  }
  ASSERT_GT(changed.size(), 30U);
  std::string cut = before;
  for (std::size_t i = 0; i <= changed.size(); ++i) {
    write_bytes(path, cut);
    write_bytes(undo_path(path), journal);
    EXPECT_EQ(undo(path), i);
    EXPECT_EQ(bytes_of(path), before);
    EXPECT_FALSE(std::filesystem::exists(undo_path(path)));
    if (i < changed.size()) cut[changed[i]] = after[changed[i]];
  }
  EXPECT_EQ(cut, after);
}

TEST(InPlace, IsRefusedWhileSomebodyReadsTheFile) {
  const Scratch scratch;
  const auto path = checkpoint(scratch);
  const std::string before = bytes_of(path);
  const ckpt::Reader reader(path);
  EXPECT_ERROR(inject_in_place(path, plan(reader, counted_model(1)).list), busy, "in use");
  EXPECT_EQ(bytes_of(path), before);
  EXPECT_FALSE(std::filesystem::exists(undo_path(path)));
}

TEST(Copy, IsRefusedOntoAFileWithAnUndoJournal) {
  const Scratch scratch;
  const auto path = checkpoint(scratch);
  const auto other = checkpoint(scratch, "other.h5");
  const record::FaultList faults = plan(ckpt::Reader(path), counted_model(1)).list;
  inject_in_place(other, faults);
  EXPECT_ERROR(inject_copy(path, other, faults), conflict, "other.h5.undo");
}

TEST(Manifest, SurvivesTheWayThroughAFile) {
  const Scratch scratch;
  const auto path = checkpoint(scratch);
  Manifest manifest;
  set_base(manifest, path);
  manifest.model = counted_model(20, (std::uint64_t{1} << 63) + 5);
  manifest.plan = plan(ckpt::Reader(path), manifest.model);
  manifest.provenance = record::Json::object();
  write_bytes(scratch / "m.json", to_json(manifest).dump(1));
  Manifest back = read_manifest(scratch / "m.json");
  EXPECT_EQ(back.plan.faults(), manifest.plan.faults());
  EXPECT_EQ(back.model.seed, manifest.model.seed);
  EXPECT_EQ(back.base_digest, manifest.base_digest);
  EXPECT_EQ(back.plan.census.bits, manifest.plan.census.bits);
  EXPECT_NO_THROW(check_replay(ckpt::Reader(path), back, SameBase::bytes));
}

TEST(Manifest, ValuesReadAsPeopleWriteThem) {
  EXPECT_EQ(value_text("float32", 0x3f800000), "1");
  EXPECT_EQ(value_text("float32", 0x7fc00000), "nan");
  EXPECT_EQ(value_text("float32", 0xff800000), "-inf");
  EXPECT_EQ(value_text("bfloat16", 0xc020), "-2.5");
  EXPECT_EQ(value_text("float16", 0x0001), "5.9604645e-08");
  EXPECT_EQ(value_text("int8", 0xff), "-1");
  EXPECT_EQ(value_text("uint64", ~std::uint64_t{0}), "18446744073709551615");
}

}  // namespace
}  // namespace bitrift::inject::inject_test
