// The filters of a dataset, and a chunk that went through them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bitrift::h5 {

/// One filter of a pipeline, as in the object header.
struct PipelineFilter {
  unsigned id = 0;
  bool optional = false;
  std::vector<std::uint32_t> values;  ///< client data
};

/// The most client data of a filter that can be encoded.
inline constexpr std::size_t most_filter_values = 256;

/// The input from which a pipeline's filters are set up: some look at the datatype and at the shape of a
/// chunk.
struct PipelineSpec {
  std::vector<std::uint8_t> datatype;  ///< the datatype message of the dataset, as in the object header
  std::vector<std::uint64_t> chunk;    ///< shape of a chunk in elements
  std::uint64_t element_bytes = 0;
  std::vector<PipelineFilter> filters;  ///< in the order of writing
};

/// A stored chunk; bit i of the mask: filter i was skipped.
struct StoredChunk {
  std::vector<std::uint8_t> bytes;
  std::uint32_t mask = 0;
};

}  // namespace bitrift::h5
