// Writes the input as the files of a checkpoint in several files, asks it for all that can be asked, and
// flips a bit in each tensor: every altered byte is in one of the files, and writing the bytes back restores
// all.
#include "ckpt/set/file_set.h"
#include "fuzz/reading.h"
#include "inject/draw/fault_plan.h"
#include "inject/write/patch.h"
#include "inject/write/write_patch.h"

namespace bitrift::fuzz {
namespace {

/// The last byte says of which kind the set is, the two before it how long the index is, which comes first.
class Files {
 public:
  Files() : folder_("bitrift-fuzz-set") {}

  void write(std::span<const std::uint8_t> input) const {
    const bool distributed = input.back() % 2U == 0;
    const std::size_t said = input[input.size() - 3] + 256U * input[input.size() - 2];
    const auto content = input.first(input.size() - 3);
    const std::size_t cut = std::min(said, content.size());
    for (const char* name : {".metadata", "__0_0.distcp", "model.safetensors.index.json", "m.safetensors"})
      std::filesystem::remove(folder_.path() / name);
    put(distributed ? ".metadata" : "model.safetensors.index.json", content.first(cut));
    put(distributed ? "__0_0.distcp" : "m.safetensors", content.subspan(cut));
  }
  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }

 private:
  void put(const char* name, std::span<const std::uint8_t> bytes) const {
    const auto path = folder_.path() / name;
    write_at(open_file(path, O_WRONLY | O_CREAT | O_TRUNC), bytes.data(), bytes.size(), 0, path);
  }
  TemporaryFolder folder_;
};

void flip_there_and_back(const ckpt::Reader& reader) {
  record::FaultModel model;
  model.count = 3;
  model.seed = 5;
  inject::Plan plan;
  if (!answered([&] { plan = inject::plan(reader, model); })) return;
  inject::Patch patch;
  if (!answered([&] { patch = inject::make_patch(reader, plan.list); })) return;
  std::uint64_t sum = 0;
  for (const FileList::Part& part : reader.files().parts) sum += part.bytes;
  for (const auto& range : patch.ranges) expect(range.end() <= sum, "an altered byte in none of the files");
  const FileRun files(reader.files(), O_RDWR);
  must([&] { inject::write_patch(files, patch, false); }, "a patch cannot be written");
  must([&] { inject::write_patch(files, patch, true); }, "a patch cannot be undone");
}

}  // namespace
}  // namespace bitrift::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace bitrift::fuzz;
  if (size < 3) return 0;
  static const Files files;
  files.write({data, size});
  answered([] {
    look_at_everything(files.path());
    flip_there_and_back(bitrift::ckpt::Reader(files.path()));
  });
  return 0;
}
