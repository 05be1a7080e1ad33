#include "h5/pipeline.h"

#include <cstring>
#include <utility>

#include "core/confined.h"
#include "core/error.h"
#include "h5/module.h"

namespace bitrift::h5 {
namespace {

using Bytes = std::vector<std::uint8_t>;

using Task = Module::Task;

// A request is a task, the mask and the bytes; an answer the mask and the bytes.
constexpr std::size_t mask_bytes = sizeof(std::uint32_t);

constexpr std::size_t most_dimensions = 32;  // H5S_MAX_RANK
constexpr std::size_t most_filters = 31;     // H5Z_MAX_NFILTERS, and one that MemoryChunk adds
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 40;

Bytes packed(std::span<const std::uint8_t> front, std::uint32_t mask, std::span<const std::uint8_t> bytes) {
  Bytes all(front.size() + mask_bytes + bytes.size());
  std::copy(front.begin(), front.end(), all.begin());
  std::memcpy(all.data() + front.size(), &mask, mask_bytes);
  std::copy(bytes.begin(), bytes.end(), all.begin() + static_cast<std::ptrdiff_t>(front.size() + mask_bytes));
  return all;
}

StoredChunk unpacked(std::span<const std::uint8_t> all) {
  StoredChunk chunk;
  if (all.size() < mask_bytes) fail(ErrorCode::internal, "a coded chunk has {} bytes", all.size());
  std::memcpy(&chunk.mask, all.data(), mask_bytes);
  chunk.bytes.assign(all.begin() + mask_bytes, all.end());
  return chunk;
}

StoredChunk run(const PipelineSpec& spec, const std::string& where, Task task,
                std::span<const std::uint8_t> bytes, std::uint32_t mask) {
  StoredChunk result;
  std::string error;
  const int status = load_module().run(spec, where, task, bytes, mask, result, error);
  if (status != 0) throw Error(static_cast<ErrorCode>(status - 1), error);
  return result;
}

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

struct ChunkPipeline::State {
  PipelineSpec spec;
  std::string where;
  std::uint64_t chunk_bytes = 0;
  std::unique_ptr<Confined> child;  // none: here

  [[nodiscard]] StoredChunk run(Task task, std::span<const std::uint8_t> bytes, std::uint32_t mask) const {
    if (!child) return h5::run(spec, where, task, bytes, mask);
    const auto front = static_cast<std::uint8_t>(task);
    return unpacked(child->call(packed({&front, 1}, mask, bytes)));
  }
};

ChunkPipeline::ChunkPipeline(PipelineSpec spec, std::string where, PipelinePlace place)
    : state_(std::make_unique<State>()) {
  state_->chunk_bytes = check_spec(spec, where);
  state_->spec = std::move(spec);
  state_->where = std::move(where);
  static_cast<void>(load_module());  // once here, and not in each child
  if (place == PipelinePlace::here) return;
  ConfinedLimits limits;
  // Ample for the slowest of compressors: 2 MB a second, and 16 times the chunk beside what libraries take.
  limits.memory_bytes += 16 * state_->chunk_bytes;
  limits.seconds += static_cast<unsigned>(state_->chunk_bytes >> 21);
  limits.answer_bytes = 2 * state_->chunk_bytes + 65536;
  const State* state = state_.get();
  const auto work = [state](std::span<const std::uint8_t> request) {
    const auto task = static_cast<Task>(request.front());
    const StoredChunk given = unpacked(request.subspan(1));
    expose_module();
    const StoredChunk result = h5::run(state->spec, state->where, task, given.bytes, given.mask);
    return packed({}, result.mask, result.bytes);
  };
  state_->child = std::make_unique<Confined>(work, state_->where, limits);
}

ChunkPipeline::~ChunkPipeline() = default;
ChunkPipeline::ChunkPipeline(ChunkPipeline&&) noexcept = default;
ChunkPipeline& ChunkPipeline::operator=(ChunkPipeline&&) noexcept = default;

std::vector<std::uint8_t> ChunkPipeline::decode(std::span<const std::uint8_t> stored, std::uint32_t mask) {
  Bytes values = state_->run(Task::decode, stored, mask).bytes;
  if (values.size() != state_->chunk_bytes) {
    fail(ErrorCode::internal, "{}: holds {} bytes of values, not {}", state_->where, values.size(),
         state_->chunk_bytes);
  }
  return values;
}

StoredChunk ChunkPipeline::encode(std::span<const std::uint8_t> values) {
  return state_->run(Task::encode, values, 0);
}

Recoded ChunkPipeline::recode(std::span<const std::uint8_t> values) {
  Recoded recoded{encode(values), {}};
  const Bytes again = decode(recoded.stored.bytes, recoded.stored.mask);
  recoded.differing = differing_elements(values, again, state_->spec.element_bytes);
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
