// Reads a fault model as `bitrift inject --model` does, and asks what it would do to every number format.
#include "fuzz/harness.h"
#include "inject/alteration.h"
#include "inject/draw/draw.h"
#include "inject/manifest/manifest.h"
#include "record/json/schema.h"

namespace bitrift::fuzz {
namespace {

record::Json model_schema() {
  record::Json schema = record::shipped_schema("fault-manifest").at("properties").at("model");
  schema.erase("required");
  return schema;
}

void alter(const inject::Alteration& kind, const std::string& name) {
  const NumberFormat format = number_format(name).value();
  for (const unsigned place : kind.places(format)) {
    const std::uint64_t touched = kind.touched(format, place);
    expect((touched & ~format.mask()) == 0, name + ": bits outside of the number are touched");
    for (const std::uint64_t old : {std::uint64_t{0}, format.mask() / 3, format.mask()}) {
      const auto draw = [](std::uint64_t k) { return 0x9e3779b97f4a7c15U * (k + 1); };
      const auto altered = kind.apply(format, old, place, draw);
      const std::uint64_t changed = altered.value_or(old) ^ old;
      expect((changed & ~touched) == 0, name + ": other bits change than it says");
    }
  }
}

void read_model(std::string_view text) {
  static const record::Json schema = model_schema();
  const record::Document document = record::parse_text(text, "model.json");
  record::check_schema(document, schema);
  const record::FaultModel model = inject::fault_model_from(document, "");
  const record::Json written = record::to_json(model);
  expect(record::to_json(record::fault_model_from_json(written)) == written, "another model is read back");
  inject::check_model(model);
  const inject::Alteration kind(model);
  for (const std::string& name : number_format_names()) answered([&] { alter(kind, name); });
}

}  // namespace
}  // namespace bitrift::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bitrift::fuzz;
  answered([&] { read_model({reinterpret_cast<const char*>(data), size}); });
  return 0;
}
