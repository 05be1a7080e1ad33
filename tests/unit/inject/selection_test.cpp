// Which tensors a choice means, and that no part of a choice is ignored.
#include "inject/draw/selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/permutation.h"
#include "core/philox.h"
#include "unit/inject/written.h"
#include "unit/scratch.h"

namespace bitrift::inject::selection_test {
namespace {

using ::testing::ElementsAre;
using testing::Scratch;
using testing::write_tensors;

/// A choice whose parts all have a default.
struct Wanted {
  std::vector<std::string> tensors = {}, roles = {}, layers = {};
  std::map<std::string, std::string> as = {};
  int replica_count = 0;
  std::vector<int> replicas = {};
  int stage = -1;
  std::uint64_t seed = 0;
};

std::vector<std::string> chosen(const ckpt::Reader& reader, const Wanted& wanted) {
  const record::Scope scope{wanted.replica_count, wanted.replicas, wanted.stage};
  const Choice choice{wanted.tensors, {}, wanted.roles, wanted.layers, wanted.as, scope, wanted.seed};
  std::vector<std::string> names;
  for (const Chosen& one : choose(reader, choice))
    names.push_back(one.tensor->path + " " + one.format.name());
  return names;
}

std::filesystem::path network(const Scratch& scratch) {
  return write_tensors(scratch / "n.h5", {{"model/conv1.weight", "float32", {1, 2}},
                                          {"model/conv1.bias", "float32", {3}},
                                          {"model/fc.weight", "float16", {4}},
                                          {"optimizer/momentum_buffer/fc.weight", "float16", {5}}});
}

TEST(Choose, TakesTheIntersectionOfGlobsRolesAndLayers) {
  const Scratch scratch;
  const ckpt::Reader reader(network(scratch));
  EXPECT_THAT(chosen(reader, {}),
              ElementsAre("model/conv1.bias float32", "model/conv1.weight float32", "model/fc.weight float16",
                          "optimizer/momentum_buffer/fc.weight float16"));
  EXPECT_THAT(chosen(reader, {.roles = {"weight", "momentum"}, .layers = {"last"}}),
              ElementsAre("model/fc.weight float16", "optimizer/momentum_buffer/fc.weight float16"));
  EXPECT_THAT(chosen(reader, {.tensors = {"**weight"}, .roles = {"weight"}}),
              ElementsAre("model/conv1.weight float32", "model/fc.weight float16"));
  EXPECT_THAT(chosen(reader, {.tensors = {"model/conv1.*"}, .roles = {"bias"}, .layers = {"first"}}),
              ElementsAre("model/conv1.bias float32"));
}

TEST(Choose, RefusesWhatMatchesNothing) {
  const Scratch scratch;
  const ckpt::Reader reader(network(scratch));
  EXPECT_ERROR(chosen(reader, {.tensors = {"model/**", "none"}}), not_found, "no tensor matches 'none'");
  EXPECT_ERROR(chosen(reader, {.tensors = {"conv1.weight"}}), not_found,
               "no tensor matches 'conv1.weight'; did you mean 'model/conv1.weight'?");
  EXPECT_ERROR(chosen(reader, {.tensors = {"conv1.*"}}), not_found, "; did you mean '**/conv1.*'?");
  EXPECT_ERROR(chosen(reader, {.tensors = {"model/conv1.wieght"}}), not_found,
               "; did you mean 'model/conv1.weight'?");
  EXPECT_ERROR(chosen(reader, {.tensors = {"**bias"}, .roles = {"weight", "bias"}}), not_found,
               "no tensor with the requested names has the role 'weight'");
  EXPECT_ERROR(chosen(reader, {.tensors = {"**bias"}, .roles = {"weight"}}), not_found,
               "no tensor with the requested roles matches '**bias'");
  EXPECT_ERROR(chosen(reader, {.roles = {"exp_avg"}}), not_found,
               "(the file has bias, checksum, momentum, weight)");
  EXPECT_ERROR(chosen(reader, {.roles = {"weights"}}), bad_input, "'weights' is not a role");
  EXPECT_ERROR(chosen(reader, {.roles = {"checksum"}}), unsupported, "computed from the tensors");
  EXPECT_ERROR(chosen(reader, {.tensors = {"checksum/*"}}), unsupported, "'checksum/*' names checksums");
  EXPECT_ERROR(chosen(reader, {.roles = {"bias"}, .layers = {"first", "last"}}), not_found,
               "layer 'fc' has no tensor");
}

TEST(Choose, AFormatMustBeOneFitAndBeUsed) {
  const Scratch scratch;
  const ckpt::Reader reader(network(scratch));
  const Wanted view = {.tensors = {"**fc.weight"}, .as = {{"model/**", "bfloat16"}}};
  EXPECT_THAT(chosen(reader, view),
              ElementsAre("model/fc.weight bfloat16", "optimizer/momentum_buffer/fc.weight float16"));
  const auto refuse = [&](std::map<std::string, std::string> as, ErrorCode code, const char* text) {
    try {
      static_cast<void>(chosen(reader, {.tensors = {"model/fc.*"}, .as = std::move(as)}));
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_THAT(error.what(), ::testing::HasSubstr(text));
    }
  };
  refuse({{"**", "half"}}, ErrorCode::bad_input, "'half' is not a number format");
  refuse({{"**", "float32"}}, ErrorCode::bad_input,
         "float32 takes 4 bytes, an element of model/fc.weight (float16) takes 2");
  refuse({{"**", "bfloat16"}, {"model/**", "int16"}}, ErrorCode::bad_input,
         "--as reads model/fc.weight both as bfloat16 and as int16");
  refuse({{"model/conv1.bias", "int32"}}, ErrorCode::not_found, "none of the chosen tensors matches");
}

/// "c" has a member that is a text, "t" is a text, "e" has no elements, "a" has the attribute "gain".
std::filesystem::path mixed(const Scratch& scratch) {
  const auto path = scratch / "mixed.h5";
  EXPECT_TRUE(testing::python(path, R"(
with h5py.File(path, 'w') as f:
    f['a'] = np.zeros(2, '>f4')
    f['a'].attrs['gain'] = np.float32(2)
    f['c'] = np.zeros(3, dtype=[('x', '<f8'), ('s', 'S4'), ('y', '<i2')])
    f['e'] = np.zeros(0, '<f4')
    f['t'] = np.array([b'text'])
)"));
  return path;
}

TEST(Choose, WithoutNamesTakesNumbersOnly) {
  const Scratch scratch;
  const ckpt::Reader reader(mixed(scratch));
  EXPECT_THAT(chosen(reader, {}), ElementsAre("a float32", "c:x float64", "c:y int16"));
  EXPECT_THAT(chosen(reader, {.tensors = {"c"}}), ElementsAre("c:x float64", "c:y int16"));
  EXPECT_ERROR(chosen(reader, {.tensors = {"c:s"}}), unsupported, "c:s cannot be altered");
  EXPECT_ERROR(chosen(reader, {.tensors = {"t"}}), unsupported, "t cannot be altered");
  EXPECT_ERROR(chosen(reader, {.tensors = {"e"}}), bad_input, "holds no tensor that could be altered");
}

TEST(Choose, AttributesAreNamedWithTheirSignAlone) {
  const Scratch scratch;
  const ckpt::Reader reader(mixed(scratch));
  EXPECT_THAT(chosen(reader, {.tensors = {"a@gain"}}), ElementsAre("a@gain float32"));
  EXPECT_THAT(chosen(reader, {.tensors = {"a*"}}), ElementsAre("a float32"));
  EXPECT_THAT(chosen(reader, {.tensors = {"a", "*@*"}}), ElementsAre("a float32", "a@gain float32"));
}

TEST(Choose, AViewKeepsTheByteOrder) {
  const Scratch scratch;
  const ckpt::Reader reader(mixed(scratch));
  const auto found = choose(reader, {{"a"}, {}, {}, {}, {{"a", "int32"}}, {}, 0});
  EXPECT_EQ(found.at(0).format.order, ByteOrder::big);
  EXPECT_EQ(found.at(0).format.kind, NumberKind::signed_integer);
}

TEST(Scopes, TakeTensorsOfSingleReplicas) {
  const Scratch scratch;
  std::vector<testing::Written> tensors = {{"model/a.weight", "float32", {1}}};
  for (const char* replica : {"1", "2", "7", "10", "11"})
    tensors.push_back({std::string("replica/") + replica + "/model/a.weight", "float32", {2}});
  const ckpt::Reader reader(write_tensors(scratch / "r.h5", tensors));
  const auto of = [](int replica) { return fmt::format("replica/{}/model/a.weight float32", replica); };
  EXPECT_THAT(chosen(reader, {.replicas = {2, 10}}), ElementsAre(of(10), of(2)));
  EXPECT_ERROR(chosen(reader, {.replicas = {2, 3}}), not_found,
               "no tensors of replica 3 alone (there are those of 1, 2, 7, 10, 11)");
  EXPECT_ERROR(chosen(reader, {.stage = 1}), unsupported, "no pipeline stages");
  EXPECT_ERROR(chosen(reader, {.replica_count = 6}), bad_input, "6 replicas cannot be drawn from the 5");
  const std::vector<int> own = {1, 2, 7, 10, 11};
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Permutation order(own.size(), derive_key(seed, "inject.scope"));
    EXPECT_THAT(chosen(reader, {.replica_count = 2, .seed = seed}),
                ::testing::UnorderedElementsAre(of(own[order(0)]), of(own[order(1)])));
  }
}

TEST(Scopes, NeedTensorsOfSingleReplicas) {
  const Scratch scratch;
  const ckpt::Reader reader(
      write_tensors(scratch / "r.h5", {{"model/a.weight", "float32", {1}}, {"replica/x/w", "float32", {1}}}));
  EXPECT_ERROR(chosen(reader, {.replica_count = 1}), unsupported, "holds no tensors of single replicas");
  EXPECT_ERROR(chosen(reader, {.replicas = {0}}), unsupported, "holds no tensors of single replicas");
}

}  // namespace
}  // namespace bitrift::inject::selection_test
