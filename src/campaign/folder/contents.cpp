#include "campaign/folder/contents.h"

#include <filesystem>

#include "core/error.h"

namespace bitrift::campaign {

analyze::Contents read_contents(const Layout& layout, const StoredCampaign& campaign) {
  const design::CampaignSpec& spec = campaign.spec;
  if (!spec.strata->no_rates_by("tensor").empty()) return {};
  for (const record::BaseFile& file : spec.files) {
    const auto path = layout.base(file.stem);
    if (std::filesystem::exists(path)) continue;
    fail(ErrorCode::not_found,
         "{}: is missing; rates by layer, tensor or bit need it to count the bits of each; restore it",
         path.string());
  }
  check_bases(layout, campaign.base_digests);
  const Bases bases = open_bases(layout, spec);
  const Plan plan(spec, bases);
  analyze::Contents contents(bases.size());
  for (std::size_t i = 0; i < bases.size(); ++i) {
    contents[i].layers = spec.strata->layers();
    if (contents[i].layers.empty()) {
      for (const ckpt::LayerList::Layer& layer : bases[i].layers().layers())
        contents[i].layers.push_back(layer.name);
    }
    for (const Cell& cell : plan.cells()) {
      auto& tensors = contents[i].strata[cell.stratum.name];
      for (const design::TensorMembers& one : cell.population->computed())
        tensors.push_back({one.tensor, one.layer, one.each, one.bits});
      const inject::Population* const bits = cell.population->bits(i);
      if (bits == nullptr) continue;
      for (const inject::Target& target : bits->targets()) {
        const ckpt::TensorInfo* const tensor = bases[i].find(target.path);
        tensors.push_back(
            {target.path, tensor == nullptr ? "" : tensor->layer, target.elements, target.bits});
      }
    }
  }
  return contents;
}

std::map<std::string, std::string> layers_of_tensors(const Layout& layout, const design::CampaignSpec& spec) {
  std::map<std::string, std::string> layers;
  for (const record::BaseFile& file : spec.files) {
    const auto path = layout.base(file.stem);
    if (!std::filesystem::exists(path)) continue;
    const ckpt::Reader base(path);
    for (const ckpt::TensorInfo& tensor : base.tensors()) {
      if (!tensor.layer.empty()) layers.emplace(tensor.path, tensor.layer);
    }
  }
  return layers;
}

}  // namespace bitrift::campaign
