// The requests to the program bitrift-hdf5, and its answers, as bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "filters/pipeline_spec.h"

namespace bitrift::h5 {

enum class FilterTask : std::uint8_t {
  decode,   ///< decode: the values of a stored chunk
  encode,   ///< encode: the stored form of values
  version,  ///< version: of the HDF5 library, as text
};

/// Both sides come from one build, so numbers are in the machine's byte order and nothing has a version.
struct FilterRequest {
  FilterTask task = FilterTask::version;
  std::string where;  ///< begins the messages of errors
  PipelineSpec spec;
  StoredChunk chunk;  ///< the stored bytes, or values without a mask

  [[nodiscard]] std::vector<std::uint8_t> packed() const;
  /// Throws Error(internal) for bytes that packed() does not produce.
  [[nodiscard]] static FilterRequest unpacked(std::span<const std::uint8_t> bytes);
};

/// An answer: the mask, and the bytes of the chunk, the values or the text.
[[nodiscard]] std::vector<std::uint8_t> packed(const StoredChunk& chunk);
[[nodiscard]] StoredChunk unpacked_chunk(std::span<const std::uint8_t> bytes);

}  // namespace bitrift::h5
