#include "filters/filter_pipeline.h"

#include <cstring>
#include <utility>

#include "core/error.h"
#include "filters/filter_program.h"
#include "filters/filter_request.h"

namespace bitrift::h5 {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t most_dimensions = 32;  // H5S_MAX_RANK
constexpr std::size_t most_filters = 31;     // H5Z_MAX_NFILTERS, and one that MemoryChunk adds
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 40;

/// Bytes of a chunk. Throws Error(bad_file) for dimensions, sizes or counts that no chunk has.
std::uint64_t check_spec(const PipelineSpec& spec, const std::string& where) {
  std::uint64_t bytes = spec.element_bytes;
  bool good = bytes > 0 && !spec.chunk.empty() && spec.chunk.size() <= most_dimensions &&
              spec.filters.size() <= most_filters && spec.datatype.size() >= 8;
  for (const std::uint64_t extent : spec.chunk) {
    good = good && extent > 0 && !__builtin_mul_overflow(bytes, extent, &bytes) && bytes <= most_bytes;
  }
  for (const PipelineFilter& filter : spec.filters) good = good && filter.values.size() <= most_filter_values;
  if (!good) fail(ErrorCode::bad_file, "{}: has chunks or filters that no dataset has", where);
  return bytes;
}

}  // namespace

ChunkPipeline::ChunkPipeline(PipelineSpec spec, std::string where)
    : spec_(std::move(spec)), where_(std::move(where)), chunk_bytes_(check_spec(spec_, where_)) {}

StoredChunk ChunkPipeline::ask(FilterTask task, std::span<const std::uint8_t> bytes,
                               std::uint32_t mask) const {
  ConfinedLimits limits;
  // Ample for the slowest of compressors: 2 MB a second, and 16 times the chunk in addition to what libraries
  // take.
  limits.memory_bytes += 16 * chunk_bytes_;
  limits.seconds += static_cast<unsigned>(chunk_bytes_ >> 21);
  limits.answer_bytes = 2 * chunk_bytes_ + 65536;
  const FilterRequest request{task, where_, spec_, {{bytes.begin(), bytes.end()}, mask}};
  return unpacked_chunk(ask_filter_program(request.packed(), where_, limits));
}

std::vector<std::uint8_t> ChunkPipeline::decode(std::span<const std::uint8_t> stored,
                                                std::uint32_t mask) const {
  Bytes values = ask(FilterTask::decode, stored, mask).bytes;
  if (values.size() != chunk_bytes_) {
    fail(ErrorCode::internal, "{}: holds {} bytes of values, not {}", where_, values.size(), chunk_bytes_);
  }
  return values;
}

StoredChunk ChunkPipeline::encode(std::span<const std::uint8_t> values) const {
  return ask(FilterTask::encode, values, 0);
}

Recoded ChunkPipeline::recode(std::span<const std::uint8_t> values) const {
  Recoded recoded{encode(values), {}};
  const Bytes again = decode(recoded.stored.bytes, recoded.stored.mask);
  recoded.differing = differing_elements(values, again, spec_.element_bytes);
  return recoded;
}

std::vector<std::uint64_t> differing_elements(std::span<const std::uint8_t> one,
                                              std::span<const std::uint8_t> other,
                                              std::uint64_t element_bytes) {
  if (one.size() != other.size() || element_bytes == 0) {
    fail(ErrorCode::internal, "chunks of {} and {} bytes cannot be compared", one.size(), other.size());
  }
  std::vector<std::uint64_t> differing;
  if (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0) return differing;
  for (std::uint64_t at = 0; at < one.size(); at += element_bytes) {
    const std::uint64_t count = std::min<std::uint64_t>(element_bytes, one.size() - at);
    if (std::memcmp(one.data() + at, other.data() + at, count) != 0) differing.push_back(at / element_bytes);
  }
  return differing;
}

}  // namespace bitrift::h5
