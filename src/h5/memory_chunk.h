// A dataset of one chunk in memory, with the pipeline of another dataset.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "filters/pipeline_spec.h"
#include "h5/handle.h"

namespace bitrift::h5 {

/// Lives within one Scope. Throws as ChunkPipeline does.
class MemoryChunk {
 public:
  /// `spec` is that of a ChunkPipeline, which has checked it.
  MemoryChunk(const PipelineSpec& spec, std::string where);

  [[nodiscard]] std::vector<std::uint8_t> decode(std::span<const std::uint8_t> stored, std::uint32_t mask);
  [[nodiscard]] StoredChunk encode(std::span<const std::uint8_t> values);

 private:
  void create(const PipelineSpec& spec);
  void create_with(const PipelineSpec& spec, const std::vector<std::vector<std::uint32_t>>& values);
  void reopen();
  [[nodiscard]] bool reads_on(std::uint32_t mask) const noexcept;
  [[nodiscard]] std::vector<std::uint8_t> decode_exactly(std::span<const std::uint8_t> stored,
                                                         std::uint32_t mask);
  [[nodiscard]] Handle creation_list(const PipelineSpec& spec,
                                     const std::vector<std::vector<std::uint32_t>>& values) const;
  void set_scale_offset_fill(const PipelineFilter& filter, std::int64_t list) const;
  [[nodiscard]] std::size_t first_other_values(const PipelineSpec& spec) const;

  std::string where_, name_;
  unsigned names_ = 0;  // datasets made so far
  std::uint64_t bytes_ = 0;
  std::vector<std::uint64_t> origin_;
  std::vector<unsigned> filter_ids_;
  std::uint32_t idle_ = 0;  // filters that pass bytes on unchanged, as a mask of skipped filters
  Handle file_, type_, dataset_;
};

}  // namespace bitrift::h5
