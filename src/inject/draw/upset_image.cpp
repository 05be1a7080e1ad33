#include "inject/draw/upset_image.h"

#include <vector>

namespace bitrift::inject {

Upsets upsets_of(const Population& population, const record::FaultModel& model) {
  std::vector<MemoryBlock> blocks;
  blocks.reserve(population.targets().size());
  for (const Target& target : population.targets()) blocks.push_back({target.format, target.elements});
  return {MemoryImage(blocks), model};
}

}  // namespace bitrift::inject
