// Manifests as text: what other programs read in them, and what is refused.
#include "inject/manifest/manifest.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/digest.h"
#include "inject/manifest/manifest_text.h"
#include "unit/inject/written.h"
#include "unit/scratch.h"

namespace bitrift::inject::manifest_test {
namespace {

using record::Json;
using ::testing::HasSubstr;
using testing::Scratch;
using testing::write_bytes;

record::AppliedFault fault(const std::string& tensor, const std::string& dtype, std::uint64_t element,
                           std::vector<unsigned> bits, std::uint64_t old_pattern, std::uint64_t new_pattern) {
  return {.tensor = tensor,
          .role = "weight",
          .element = element,
          .dtype = dtype,
          .bits = std::move(bits),
          .field = {},
          .old_pattern = old_pattern,
          .new_pattern = new_pattern};
}

Manifest manifest_of(const std::vector<record::AppliedFault>& faults) {
  Manifest manifest;
  manifest.base_path = "b.h5";
  manifest.base_digest = std::string(32, 'a');
  manifest.base_bytes = 7;
  manifest.model.count = faults.size();
  manifest.plan.list = compact(faults);
  manifest.provenance = Json::object();
  return manifest;
}

/// 1 -> infinity, 1 -> -1 -> NaN, -2^-24 -> 0.
Manifest three() {
  return manifest_of({fault("model/a.weight", "float16", 2, {14}, 0x3c00, 0x7c00),
                      fault("model/a.weight", "float16", 5, {0, 14, 15}, 0x3c00, 0xfc01),
                      fault("model/b.weight", "float16", 0, {0}, 0x8001, 0x8000)});
}

TEST(ManifestText, IsReadByPythonAsWasMeant) {
  const Scratch scratch;
  const std::string odd = "a\"b\\c\n\t\x01/\xc3\xa9";
  Manifest manifest = three();
  manifest.plan.list.append(fault(odd, "int64", 9, {63}, 5, 0x8000000000000005));
  manifest.plan.list.append(fault(odd, "float64", 1, {62}, 0xbff0000000000000, 0xfff0000000000000));
  manifest.model.count = 5;
  manifest.base_path = odd;
  const std::string text = manifest_text(manifest);
  write_bytes(scratch / "m.json", text);
  EXPECT_TRUE(testing::python(scratch / "m.json", R"(
import json
m = json.load(open(path, encoding='utf-8'))
odd = 'a"b\\c\n\t\x01/\u00e9'
assert m['base'] == {'path': odd, 'digest': 'a' * 32, 'bytes': 7}, m['base']
keys = ('tensor', 'dtype', 'element', 'bits', 'msb_first_bits', 'field', 'old', 'new', 'old_value', 'new_value')
assert [[one[key] for key in keys] for one in m['faults']] == [
    ['model/a.weight', 'float16', 2, [14], [1], 'exponent', '0x3c00', '0x7c00', '1', 'inf'],
    ['model/a.weight', 'float16', 5, [0, 14, 15], [0, 1, 15], 'mixed', '0x3c00', '0xfc01', '1', 'nan'],
    ['model/b.weight', 'float16', 0, [0], [15], 'mantissa', '0x8001', '0x8000', '-5.9604645e-08', '-0'],
    [odd, 'int64', 9, [63], [0], 'sign', '0x0000000000000005', '0x8000000000000005', '5', '-9223372036854775803'],
    [odd, 'float64', 1, [62], [1], 'exponent', '0xbff0000000000000', '0xfff0000000000000', '-1', '-inf'],
]
assert all((one['role'], one['measure'], 'plane' in one) == ('weight', 'bit', False) for one in m['faults'])
assert m['no_change'] == 0 and m['schema'] == 'bitrift/fault-manifest/3'
)"));
  EXPECT_EQ(Json::parse(text), to_json(manifest));
  EXPECT_EQ(read_manifest(scratch / "m.json").plan.list, manifest.plan.list);
}

TEST(ManifestText, NamesThePlaneAndTheStructure) {
  const Scratch scratch;
  Manifest manifest = manifest_of({});
  manifest.model.plane = record::Plane::metadata;
  manifest.model.count = 1;
  manifest.plan.census.bits = 800;
  manifest.plan.census.elements = 100;
  record::AppliedFault byte = fault("", "uint8", 77, {0, 7}, 0x81, 0x00);
  byte.role = "metadata";
  byte.plane = record::Plane::metadata;
  byte.structure = "object header of /w\"\n";
  manifest.plan.list.append(byte);
  write_bytes(scratch / "m.json", manifest_text(manifest));
  EXPECT_TRUE(testing::python(scratch / "m.json", R"(
import json
one, = json.load(open(path))['faults']
assert one['plane'] == 'metadata' and one['structure'] == 'object header of /w"\n' and one['field'] == ''
assert one['stratum'] == 'metadata.any' and one['stratum_bits'] == 800 and one['stratum_elements'] == 100
)"));
  EXPECT_EQ(Json::parse(manifest_text(manifest)), to_json(manifest));
  EXPECT_EQ(read_manifest(scratch / "m.json").plan.list, manifest.plan.list);
}

TEST(ManifestText, RefusesNamesThatAreNotUtf8) {
  for (const char* name : {"\xff", "a\xc3", "\xed\xa0\x80"}) {
    EXPECT_ERROR(static_cast<void>(manifest_text(manifest_of({fault(name, "int8", 0, {0}, 0, 1)}))),
                 unsupported, "a tensor's name is not UTF-8");
  }
}

TEST(ManifestText, TheStratumOfSeveralFlipsNamesAllOfTheirFields) {
  const Scratch scratch;
  const ckpt::Reader reader(testing::write_tensors(
      scratch / "s.h5", {{"model/a.weight", "float32", {1, 2}}, {"model/b.weight", "float16", {3}}}));
  Manifest manifest = manifest_of({});
  manifest.model.count = 80;  // every bit
  manifest.plan = plan(reader, manifest.model);
  // Sign 3, exponent 8 + 8 + 5, mantissa 23 + 23 + 10; each in three elements.
  Json document = to_json(manifest);
  EXPECT_EQ(document.at("faults").size(), 3U);
  for (const Json& one : document.at("faults")) {
    EXPECT_EQ(one.at("stratum"), "weight.sign+exponent+mantissa");
    EXPECT_EQ(one.at("stratum_bits"), 3 + 21 + 56);
    EXPECT_EQ(one.at("stratum_elements"), 3);
  }
  manifest.model.bits = "15,30";  // the sign of b, a bit of a's mantissa and one of its exponent
  manifest.model.tensors = {"model/a.weight"};
  manifest.model.count = 4;
  manifest.plan = plan(reader, manifest.model);
  document = to_json(manifest);
  EXPECT_EQ(document.at("faults").size(), 2U);
  for (const Json& one : document.at("faults")) {
    EXPECT_EQ(one.at("stratum"), "weight.exponent+mantissa");
    EXPECT_EQ(one.at("stratum_bits"), 2 + 2);
    EXPECT_EQ(one.at("stratum_elements"), 2);
  }
}

TEST(FaultsDigest, IsThatOfTheDocumentedText) {
  const std::string text =
      "model/a.weight\t2\t4000\t3c00\t7c00\n"
      "model/a.weight\t5\tc001\t3c00\tfc01\n"
      "model/b.weight\t0\t1\t8001\t8000\n";
  EXPECT_EQ(faults_digest(three().plan.list), digest_bytes(text.data(), text.size()));
  EXPECT_EQ(faults_digest({}), digest_bytes("", 0));
  // More than is collected at once.
  record::FaultList many;
  many.sites.push_back({"w", "weight", "int8"});
  std::string lines;
  for (std::uint64_t i = 0; i < 100'000; ++i) {
    many.changes.push_back({0, i, 1, 0, 1});
    lines += fmt::format("w\t{:x}\t1\t0\t1\n", i);
  }
  EXPECT_EQ(faults_digest(many), digest_bytes(lines.data(), lines.size()));
}

TEST(CompactManifest, SaysHowManyAndTheirDigestInsteadOfTheFaults) {
  const Scratch scratch;
  Manifest manifest = three();
  manifest.compact = true;
  manifest.plan.tensors = {{"model/a.weight", "float16", {6}}, {"model/c.weight", "int8", {2, 3}}};
  write_bytes(scratch / "m.json", manifest_text(manifest));
  const Json document = Json::parse(manifest_text(manifest));
  EXPECT_FALSE(document.contains("faults"));
  EXPECT_EQ(document.at("tensors").size(), 2U);  // all that are targeted, hit or not
  const Manifest back = read_manifest(scratch / "m.json");
  EXPECT_TRUE(back.compact);
  EXPECT_EQ(back.fault_count, 3U);
  EXPECT_EQ(back.fault_digest, faults_digest(manifest.plan.list));
  EXPECT_EQ(back.plan.tensors, manifest.plan.tensors);
  EXPECT_TRUE(back.plan.list.changes.empty());
}

class Damaged : public ::testing::Test {
 protected:
  using Change = std::function<void(Json&)>;
  void refused(Manifest manifest, const Change& change, ErrorCode code, const std::string& text) const {
    Json document = to_json(manifest);
    change(document);
    write_bytes(scratch_ / "m.json", document.dump(1));
    try {
      static_cast<void>(read_manifest(scratch_ / "m.json"));
      ADD_FAILURE() << "nothing was thrown: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(text));
      EXPECT_THAT(error.what(), HasSubstr("m.json"));
    }
  }
  static Change in_fault(std::size_t i, const char* key, Json value) {
    return [=](Json& document) { document["faults"][i][key] = value; };
  }
  Scratch scratch_;
};

TEST_F(Damaged, DocumentsOfAnotherShapeAreRefused) {
  using enum ErrorCode;
  refused(
      three(), [](Json& d) { d["schema"] = "bitrift/fault-manifest/4"; }, bad_input, "schema");
  refused(
      three(), [](Json& d) { d.erase("schema"); }, bad_input, "schema");
  refused(
      three(), [](Json& d) { d.erase("base"); }, bad_input, "base");
  refused(
      three(), [](Json& d) { d["other"] = 1; }, bad_input, "other");
  refused(
      three(), [](Json& d) { d["base"]["digest"] = "A"; }, bad_input, "base.digest");
  refused(
      three(), [](Json& d) { d["faults"][1].erase("old"); }, bad_input, "old");
  refused(
      three(), [](Json& d) { d["faults"][0]["bits"] = Json::array(); }, bad_input, "faults[0].bits");
  refused(
      three(), [](Json& d) { d.erase("faults"); }, bad_file, "expected either 'faults' or 'drawn'");
  refused(
      three(),
      [](Json& d) {
        d["drawn"] = {{"faults", 3}, {"digest", std::string(32, '0')}};
      },
      bad_file, "expected either 'faults' or 'drawn'");
  refused(
      three(), [](Json& d) { d["model"]["seed"] = -1; }, bad_input,
      "seed: expected a whole number from 0 to 2^64 - 1, found -1");
}

TEST_F(Damaged, FaultsThatCannotBeAreRefused) {
  using enum ErrorCode;
  refused(three(), in_fault(0, "dtype", "half"), bad_file, "'half' is not a number format");
  refused(three(), in_fault(0, "bits", {14, 16}), bad_file, "float16 has no bit 16");
  refused(three(), in_fault(1, "new", "0x10000"), bad_file, "a pattern is wider than float16");
  refused(three(), in_fault(1, "old", "0x13c00"), bad_file, "a pattern is wider than float16");
  const char* const other = "old and new pattern do not differ in the bits it names";
  refused(three(), in_fault(0, "new", "0x7c01"), bad_file, other);         // a bit more
  refused(three(), in_fault(1, "bits", {0, 1, 14, 15}), bad_file, other);  // a bit less
  Manifest metadata = three();
  metadata.model.plane = record::Plane::metadata;
  refused(metadata, in_fault(2, "plane", "metadata"), bad_file, "a byte of the file is uint8, not float16");
}

TEST_F(Damaged, ABitThatWasStuckMayStayAsItIs) {
  Manifest manifest = three();
  manifest.model.what = record::FaultKind::stuck_at_1;
  Json document = to_json(manifest);
  document["faults"][1]["bits"] = {0, 1, 14, 15};
  write_bytes(scratch_ / "m.json", document.dump());
  EXPECT_EQ(read_manifest(scratch_ / "m.json").plan.list.changes.at(1).bits, 0xc003U);
}

TEST_F(Damaged, ABadFaultIsNamedWithItsLine) {
  Manifest manifest = three();
  manifest.plan.list.changes[1].new_pattern ^= 2;
  const std::string text = manifest_text(manifest);
  const auto line =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("fc03")), '\n') + 1;
  write_bytes(scratch_ / "m.json", text);
  EXPECT_ERROR(static_cast<void>(read_manifest(scratch_ / "m.json")), bad_file,
               "m.json:" + std::to_string(line) + ": ");
}

TEST_F(Damaged, TextsThatAreNotJsonAreRefused) {
  const std::string text = manifest_text(three());
  for (std::size_t length = 0; length < text.size() - 2; length += 7) {
    write_bytes(scratch_ / "m.json", text.substr(0, length));
    EXPECT_ERROR(static_cast<void>(read_manifest(scratch_ / "m.json")), bad_file, "not valid JSON");
  }
  write_bytes(scratch_ / "m.json", "{\"seed\": 1, \"seed\": 1}");
  EXPECT_ERROR(static_cast<void>(read_manifest(scratch_ / "m.json")), bad_file, "occurs twice");
  EXPECT_ERROR(static_cast<void>(read_manifest(scratch_ / "none.json")), not_found, "none.json");
}

}  // namespace
}  // namespace bitrift::inject::manifest_test
