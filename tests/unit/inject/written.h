// Files of tensors whose bit patterns a test chooses, and the faults of a list by element.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "record/fault/fault_list.h"
#include "sink/format/writer.h"

namespace bitrift::testing {

/// A tensor of one dimension.
struct Written {
  std::string path;
  std::string format;
  std::vector<std::uint64_t> patterns;
};

inline std::filesystem::path write_tensors(const std::filesystem::path& path,
                                           const std::vector<Written>& tensors) {
  std::vector<ckpt::TensorMeta> metas;
  for (const Written& one : tensors)
    metas.push_back({one.path, number_format(one.format).value(), {one.patterns.size()}});
  ckpt::Writer writer(path, metas, {});
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<std::uint8_t> bytes(metas[i].bytes());
    for (std::size_t k = 0; k < tensors[i].patterns.size(); ++k)
      store_pattern(metas[i].format, tensors[i].patterns[k], bytes.data() + k * metas[i].format.bytes);
    writer.tensor(metas[i].path, bytes.data(), bytes.size());
  }
  writer.commit();
  return path;
}

/// What happened to one element.
struct Hit {
  std::uint64_t bits = 0;
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  bool operator==(const Hit&) const = default;
};
/// By tensor and element.
using Hits = std::map<std::pair<std::string, std::uint64_t>, Hit>;

inline Hits hits_of(const record::FaultList& list) {
  Hits hits;
  for (const record::ElementChange& one : list.changes)
    hits[{list.sites.at(one.site).tensor, one.element}] = {one.bits, one.old_pattern, one.new_pattern};
  return hits;
}

}  // namespace bitrift::testing
