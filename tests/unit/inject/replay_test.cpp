// Which files take the faults of a manifest.
#include "inject/manifest/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inject/manifest/manifest_text.h"
#include "unit/inject/written.h"
#include "unit/scratch.h"

namespace bitrift::inject::replay_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Scratch;
using testing::write_tensors;
using testing::Written;

/// 60 values of float32 and 4 of float16, none of them twice.
std::vector<Written> tensors() {
  std::vector<Written> made = {{"model/a.weight", "float32", {}}, {"model/b.weight", "float16", {}}};
  for (std::uint64_t i = 0; i < 60; ++i) made[0].patterns.push_back(0x3f800000 + i);
  for (std::uint64_t i = 0; i < 4; ++i) made[1].patterns.push_back(0x3c00 + i);
  return made;
}

class Replay : public ::testing::Test {
 protected:
  Replay() {
    write_tensors(base(), tensors());
    set_base(manifest_, base());
    manifest_.model.count = 40;
    manifest_.model.seed = 5;
    manifest_.plan = plan(ckpt::Reader(base()), manifest_.model);
    manifest_.provenance = record::Json::object();
  }
  [[nodiscard]] std::filesystem::path base() const { return scratch_ / "base.h5"; }

  /// The base's tensors written by h5py; `script` may change the arrays a and b and how they are
  /// stored.
  std::filesystem::path other(const std::string& script = "", const std::string& name = "other.h5") const {
    EXPECT_TRUE(testing::python(base(), R"(
with h5py.File(path) as f:
    a, b = f['model/a.weight'][()], f['model/b.weight'][()]
how = {'chunks': True, 'compression': 'gzip'}
more = {}
)" + script + R"(
with h5py.File(path.replace('base.h5', ')" + name +
                                            R"('), 'w') as f:
    for name, values in {'model/a.weight': a, 'model/b.weight': b, **more}.items():
        if values is not None:
            f.create_dataset(name, data=values, **how)
)"));
    return scratch_ / name.c_str();
  }
  /// The refusal; "" when the file takes the faults.
  [[nodiscard]] std::string refusal(const std::filesystem::path& file, SameBase same,
                                    ErrorCode code = ErrorCode::conflict) const {
    Manifest manifest = manifest_;
    return refusal_of(manifest, file, same, code);
  }
  static std::string refusal_of(Manifest& manifest, const std::filesystem::path& file, SameBase same,
                                ErrorCode code = ErrorCode::conflict) {
    try {
      check_replay(ckpt::Reader(file), manifest, same);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      return error.what();
    }
    return "";
  }
  [[nodiscard]] Manifest compacted() const {
    Manifest manifest = manifest_;
    manifest.compact = true;
    manifest.fault_count = manifest.plan.list.changes.size();
    manifest.fault_digest = faults_digest(manifest.plan.list);
    manifest.plan.list = {};
    return manifest;
  }

  Scratch scratch_;
  Manifest manifest_;
};

TEST_F(Replay, TheBaseTakesItsFaultsInEveryWay) {
  for (const SameBase same : {SameBase::bytes, SameBase::tensors, SameBase::values})
    EXPECT_EQ(refusal(base(), same), "");
}

TEST_F(Replay, TheSameTensorsStoredOtherwiseTakeThemByName) {
  const auto file = other("a, b = a.astype('>f4'), b.astype('>f2')");
  const std::size_t changes = manifest_.plan.list.changes.size();
  EXPECT_THAT(refusal(file, SameBase::bytes),
              AllOf(HasSubstr("is not the file that the manifest was drawn from"),
                    HasSubstr(fmt::format("all {} old values fit, so --by-name (the same tensors, stored "
                                          "differently) or --force would replay it",
                                          changes))));
  EXPECT_EQ(refusal(file, SameBase::tensors), "");
  EXPECT_EQ(refusal(file, SameBase::values), "");
}

TEST_F(Replay, OtherTensorsAreRefusedExceptByForce) {
  const auto missing = other("b = None", "missing.h5");
  const auto shaped = other("b = b.reshape(2, 2)", "shaped.h5");
  const auto typed = other("a = a.view('<i4')", "typed.h5");
  for (const SameBase same : {SameBase::bytes, SameBase::tensors}) {
    EXPECT_THAT(refusal(missing, same), HasSubstr("it has no tensor model/b.weight (float16 [4])"));
    EXPECT_THAT(refusal(shaped, same), HasSubstr("model/b.weight is float16 [2, 2], not float16 [4]"));
    EXPECT_THAT(refusal(typed, same), HasSubstr("model/a.weight is int32 [60], not float32 [60]"));
  }
  EXPECT_EQ(refusal(shaped, SameBase::values), "");
  EXPECT_EQ(refusal(typed, SameBase::values), "");
  EXPECT_THAT(refusal(missing, SameBase::values), HasSubstr("has no tensor model/b.weight"));
  EXPECT_THAT(refusal(other("a = a.astype('<f8')"), SameBase::values),
              HasSubstr("model/a.weight is float64, the fault is for float32"));
  EXPECT_THAT(refusal(other("b = b[:1]"), SameBase::values), HasSubstr("has 1 elements"));
}

TEST_F(Replay, AnotherOldValueIsRefusedAlwaysAndTheFirstOfTheListIsNamed) {
  const record::FaultList& list = manifest_.plan.list;
  ASSERT_EQ(list.sites.at(list.changes.at(5).site).tensor, "model/a.weight");
  const std::uint64_t first = list.changes.at(5).element;
  const std::uint64_t last = list.changes.at(9).element;
  const std::string change = fmt::format("a.view('<u4')[[{}, {}]] ^= 1\nhow['chunks'] = (4,)", first, last);
  const std::string says =
      fmt::format("element {} of model/a.weight holds {:#x}, the fault was drawn for {:#x}", first,
                  (0x3f800000 + first) ^ 1, 0x3f800000 + first);
  const auto file = other(change);
  for (const SameBase same : {SameBase::bytes, SameBase::tensors, SameBase::values})
    EXPECT_THAT(refusal(file, same), HasSubstr(says));
}

TEST_F(Replay, AValueWithoutAFaultMattersOnlyToTheFile) {
  std::set<std::uint64_t> hit;
  for (const record::ElementChange& one : manifest_.plan.list.changes) {
    if (one.site == 0) hit.insert(one.element);
  }
  std::uint64_t untouched = 0;
  while (hit.contains(untouched)) ++untouched;
  ASSERT_LT(untouched, 60U);
  const auto file = scratch_ / "other.h5";
  std::filesystem::copy_file(base(), file);
  EXPECT_TRUE(testing::python(file, fmt::format(R"(
with h5py.File(path, 'r+') as f:
    f['model/a.weight'][{}] = 8
)",
                                                untouched)));
  EXPECT_THAT(
      refusal(file, SameBase::bytes),
      AllOf(HasSubstr("its digest is "),
            HasSubstr(fmt::format("model/a.weight differs first in element {}, which holds 0x41000000, "
                                  "not {:#x}",
                                  untouched, 0x3f800000 + untouched))));
  EXPECT_EQ(refusal(file, SameBase::tensors), "");
  // Longer by a byte, and no base to compare it with.
  std::filesystem::copy_file(base(), file, std::filesystem::copy_options::overwrite_existing);
  std::ofstream(file, std::ios::app) << 'x';
  std::filesystem::rename(base(), scratch_ / "moved.h5");
  EXPECT_THAT(refusal(file, SameBase::bytes),
              HasSubstr(fmt::format("it has {} bytes, not {}; all ", manifest_.base_bytes + 1,
                                    manifest_.base_bytes)));
}

TEST_F(Replay, ByNameNeedsNamesAndShapes) {
  Manifest manifest = manifest_;
  manifest.plan.tensors.clear();
  EXPECT_THAT(refusal_of(manifest, base(), SameBase::tensors, ErrorCode::bad_input),
              HasSubstr("does not say the shape of model/a.weight"));
  manifest.model.plane = record::Plane::storage;
  manifest.plan = plan(ckpt::Reader(base()), manifest.model);
  EXPECT_THAT(refusal_of(manifest, base(), SameBase::tensors, ErrorCode::bad_input),
              HasSubstr("--by-name works only with plane value"));
  EXPECT_EQ(refusal_of(manifest, base(), SameBase::bytes), "");
}

TEST_F(Replay, ACompactManifestIsDrawnAgain) {
  for (const SameBase same : {SameBase::bytes, SameBase::tensors}) {
    Manifest manifest = compacted();
    EXPECT_EQ(refusal_of(manifest, base(), same), "");
    EXPECT_EQ(manifest.plan.list, manifest_.plan.list);
  }
  Manifest manifest = compacted();
  EXPECT_EQ(refusal_of(manifest, other(), SameBase::tensors), "");
  EXPECT_EQ(manifest.plan.list, manifest_.plan.list);
}

TEST_F(Replay, ACompactManifestIsRefusedWhereItWouldDrawOtherFaults) {
  Manifest manifest = compacted();
  EXPECT_THAT(refusal_of(manifest, base(), SameBase::values, ErrorCode::bad_input),
              HasSubstr("--force needs the faults themselves"));
  EXPECT_THAT(refusal_of(manifest = compacted(), other(), SameBase::bytes),
              HasSubstr("a compact manifest can be replayed on that file only"));
  EXPECT_THAT(refusal_of(manifest = compacted(), other("more['model/c.weight'] = a[:1]"), SameBase::tensors),
              HasSubstr("model/c.weight (float32 [1]) is targeted too"));
  const std::size_t changes = manifest_.plan.list.changes.size();
  EXPECT_THAT(refusal_of(manifest = compacted(), other("a.view('<u4')[:] ^= 1"), SameBase::tensors),
              HasSubstr(fmt::format("gives different faults ({0}; {0} were recorded)", changes)));
  manifest = compacted();
  manifest.fault_digest.back() ^= 1;
  EXPECT_THAT(refusal_of(manifest, base(), SameBase::bytes), HasSubstr("gives different faults"));
  manifest = compacted();
  manifest.fault_count += 1;
  EXPECT_THAT(refusal_of(manifest, base(), SameBase::bytes), HasSubstr("gives different faults"));
}

}  // namespace
}  // namespace bitrift::inject::replay_test
