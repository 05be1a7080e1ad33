#include "campaign/folder/resumed_steps.h"

#include <filesystem>
#include <optional>
#include <vector>

#include "ckpt/reader.h"

namespace bitrift::campaign {
namespace {

std::optional<std::int64_t> steps_of(const std::filesystem::path& base) {
  if (!std::filesystem::exists(base)) return std::nullopt;
  const ckpt::Reader reader(base);
  const ckpt::TensorInfo* const tensor = reader.find("progress/step");
  std::int64_t steps = 0;
  if (tensor == nullptr || tensor->elements() != 1 || tensor->element_bytes != sizeof steps)
    return std::nullopt;
  reader.read(*tensor, &steps, sizeof steps);
  return steps;
}

}  // namespace

std::map<std::string, std::int64_t> resumed_steps(const Layout& layout, const design::CampaignSpec& spec) {
  std::vector<std::optional<std::int64_t>> of_file;
  for (const record::BaseFile& file : spec.files) of_file.push_back(steps_of(layout.base(file.stem)));
  std::map<std::string, std::int64_t> steps;
  for (const design::Arm& arm : spec.arms) {
    if (of_file[arm.file]) steps[arm.name] = *of_file[arm.file];
  }
  return steps;
}

}  // namespace bitrift::campaign
