// The filters of chunks that HDF5 itself or its plugins must apply.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "filters/pipeline_spec.h"

namespace bitrift::h5 {

enum class FilterTask : std::uint8_t;  // filters/filter_request.h

/// An encoded chunk, and the result of decoding it.
struct Recoded {
  StoredChunk stored;
  std::vector<std::uint64_t> differing;  ///< elements that are decoded to other bytes; none: faithful
};

/// Applies filters and undoes them by letting libhdf5 write and read a dataset of one chunk in memory; szip,
/// nbit, scale-offset and all plugins that HDF5 finds ($HDF5_PLUGIN_PATH). Decoding happens in another
/// process with limits (filters/filter_program.h), so filters cannot do harm with damaged chunks. Any number
/// of threads. All members throw Error(unsupported) when a filter is missing, cannot encode, or would encode
/// with other client data than the file names; Error(bad_file) for chunks that do not decode. Messages begin
/// with `where`.
class ChunkPipeline {
 public:
  ChunkPipeline(PipelineSpec spec, std::string where);

  /// The values of a chunk, row-major, as many bytes as a chunk has, in the byte order of the dataset.
  [[nodiscard]] std::vector<std::uint8_t> decode(std::span<const std::uint8_t> stored,
                                                 std::uint32_t mask) const;
  /// The stored form of `values`. HDF5 leaves out an optional filter that fails.
  [[nodiscard]] StoredChunk encode(std::span<const std::uint8_t> values) const;
  /// encode(), then decode() of the result: this reveals a pipeline that loses digits, or that alters
  /// elements because of others. First, the decoded values themselves must survive unchanged.
  [[nodiscard]] Recoded recode(std::span<const std::uint8_t> values) const;

 private:
  [[nodiscard]] StoredChunk ask(FilterTask task, std::span<const std::uint8_t> bytes,
                                std::uint32_t mask) const;

  PipelineSpec spec_;
  std::string where_;
  std::uint64_t chunk_bytes_ = 0;
};

/// The elements (of `element_bytes` bytes) in which two chunks of equal size differ, ascending.
[[nodiscard]] std::vector<std::uint64_t> differing_elements(std::span<const std::uint8_t> one,
                                                            std::span<const std::uint8_t> other,
                                                            std::uint64_t element_bytes);

}  // namespace bitrift::h5
