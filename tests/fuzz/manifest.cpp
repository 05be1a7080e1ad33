// Reads a fault manifest. One that is accepted, written and read again is the same.
#include "inject/manifest/manifest.h"

#include "fuzz/harness.h"
#include "inject/manifest/manifest_text.h"

namespace bitrift::fuzz {
namespace {

void expect_same(const inject::Manifest& one, const inject::Manifest& other) {
  expect(one.plan.list == other.plan.list, "other faults are read back");
  expect(record::to_json(one.model) == record::to_json(other.model), "another model is read back");
  expect(one.plan.census.strata == other.plan.census.strata, "other strata are read back");
  expect(one.base_path == other.base_path && one.base_digest == other.base_digest,
         "another base is read back");
  expect(one.compact == other.compact && one.fault_digest == other.fault_digest,
         "another digest is read back");
}

void read_and_write(const ScratchFile& file) {
  inject::Manifest manifest = inject::read_manifest(file.path());
  for (std::size_t i = 0; i < manifest.plan.list.changes.size(); ++i) {
    (void)inject::describe_fault(manifest.plan.list.at(i));
  }
  // Written compact, it holds what its faults come to, which the reader takes from the text.
  if (manifest.compact) return;
  const std::string text = inject::manifest_text(manifest);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  file.write({bytes, text.size()});
  must([&] { expect_same(manifest, inject::read_manifest(file.path())); }, "a manifest of ours is refused");
}

}  // namespace
}  // namespace bitrift::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bitrift::fuzz;
  static const ScratchFile file("manifest.json");
  file.write({data, size});
  answered([] { read_and_write(file); });
  return 0;
}
