#include "ckpt/format/hdf5_values.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ckpt/format/external.h"
#include "core/error.h"
#include "core/process/memory.h"
#include "core/process/parallel_for.h"
#include "filters/filter_pipeline.h"
#include "h5map/filter/codec.h"

namespace bitrift::ckpt {
namespace {

using h5map::Storage;
using h5map::undefined;

// The memory that one chunk takes while it is decoded, in units of its own size: two copies and what the
// filters hold.
constexpr std::uint64_t copies = 3;
// The same while it is altered: the old values, whose memory the values read back then use, the new values,
// another copy if shuffled, and two stored forms.
constexpr std::uint64_t recoded_copies = 5;
// The same with HDF5, in both processes.
constexpr std::uint64_t pipeline_copies = 8;

// A file may claim any sizes.
std::uint64_t times(std::uint64_t bytes, std::uint64_t count) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(bytes, count, &product) ? ~std::uint64_t{0} : product;
}

std::string sources_text(const std::vector<h5map::VirtualSource>& sources) {
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(sources.size(), 3); ++i) {
    text += fmt::format("{}{} of {}", i == 0 ? "" : ", ", sources[i].dataset,
                        sources[i].file == "." ? "this file" : sources[i].file);
  }
  return sources.size() > 3 ? text + ", ..." : text;
}

}  // namespace

struct Hdf5Values::State {
  State(const ValueSource& source, const std::string& name, std::string problem_)
      : file(&source.file),
        fd(&source.fd),
        lock(&source.lock),
        kept(&source.kept),
        where(source.file.source().name() + ": " + name),
        problem(std::move(problem_)) {}

  const h5map::File* file;
  const FileDescriptor* fd;
  std::mutex* lock;
  ChunkCache* kept;
  std::string where, problem;  // file and dataset, for messages; why nothing can be read
  bool shared = false;         // an attribute that other objects may have too
  std::vector<std::uint64_t> shape;
  std::uint64_t element_bytes = 0, bytes = 0;
  h5map::Layout layout;
  std::vector<std::uint8_t> fill, type_message;
  std::optional<h5map::ChunkTable> table;

  std::mutex pipeline_lock;
  std::unique_ptr<h5::ChunkPipeline> pipeline;

  std::optional<std::pair<std::uint64_t, std::optional<h5map::Chunk>>> last_found;

  [[nodiscard]] std::optional<h5map::Chunk> find(std::uint64_t cell) {
    if (!last_found || last_found->first != cell) last_found = {cell, table->find(cell)};
    return last_found->second;
  }
  [[nodiscard]] bool unfiltered(const h5map::Chunk& chunk) const {
    const std::uint32_t all = layout.filters.size() >= 32 ? ~0U : (1U << layout.filters.size()) - 1U;
    return !chunk.filtered || (chunk.mask & all) == all;
  }
  [[nodiscard]] std::vector<std::uint8_t> stored(const h5map::Chunk& chunk) const {
    std::vector<std::uint8_t> raw(chunk.bytes);
    read_at(*fd, raw.data(), raw.size(), chunk.offset, file->source().name());
    return raw;
  }
  const h5::ChunkPipeline& coder() {
    const std::lock_guard guard(pipeline_lock);
    if (!pipeline) {
      h5::PipelineSpec spec{type_message, table->grid().chunk(), element_bytes, {}};
      for (const h5map::Filter& one : layout.filters)
        spec.filters.push_back({one.id, one.optional, one.values});
      pipeline = std::make_unique<h5::ChunkPipeline>(std::move(spec), where);
    }
    return *pipeline;
  }
  [[nodiscard]] std::string chunk_name(const h5map::Chunk& chunk) const {
    return fmt::format("{}: chunk {}", where, chunk.cell);
  }
  void fill_in(std::uint64_t first, std::span<std::uint8_t> out) const {
    if (fill.empty()) {
      std::fill(out.begin(), out.end(), std::uint8_t{0});
      return;
    }
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = fill[(first + i) % fill.size()];
  }
  const std::vector<std::uint8_t>& decoded(const Hdf5Values& values, const h5map::Chunk& chunk) {
    return kept->get(this, chunk.cell, table->grid().chunk_bytes(), [&] { return values.decode(chunk); });
  }

  // For a byte of the dataset: its cell, its place in the cell's chunk, and the number of bytes that follow
  // in both.
  struct Split {
    std::uint64_t cell = 0, within = 0, run = 0;
  };
  [[nodiscard]] Split split(std::uint64_t byte) const {
    const h5map::ChunkGrid& grid = table->grid();
    const auto& chunk = grid.chunk();
    const std::size_t rank = shape.size();
    std::uint64_t element = byte / element_bytes;
    std::uint64_t stride_cells = 1, stride_chunk = 1;
    Split found;
    for (std::size_t i = rank; i-- > 0;) {
      const std::uint64_t at = element % shape[i];
      element /= shape[i];
      found.cell += at / chunk[i] * stride_cells;
      found.within += at % chunk[i] * stride_chunk;
      stride_cells *= grid.cells()[i];
      stride_chunk *= chunk[i];
      if (i == rank - 1) found.run = std::min(chunk[i] - at % chunk[i], shape[i] - at);
    }
    found.within = found.within * element_bytes + byte % element_bytes;
    found.run = found.run * element_bytes - byte % element_bytes;
    return found;
  }

  // Copies a chunk's part of the dataset: calls with a byte of the chunk, a byte of the dataset, and a number
  // of bytes.
  template <typename Copy>
  void scatter(std::uint64_t cell, const Copy& copy) const {
    const auto& chunk = table->grid().chunk();
    const std::size_t rank = shape.size();
    std::vector<std::uint64_t> first = table->grid().position(cell), extent(rank), at(rank, 0);
    for (std::size_t i = 0; i < rank; ++i) {
      first[i] *= chunk[i];
      extent[i] = std::min(chunk[i], shape[i] - first[i]);
    }
    while (true) {
      std::uint64_t in_chunk = 0, in_dataset = 0;
      for (std::size_t i = 0; i < rank; ++i) {
        in_chunk = in_chunk * chunk[i] + at[i];
        in_dataset = in_dataset * shape[i] + first[i] + at[i];
      }
      copy(in_chunk * element_bytes, in_dataset * element_bytes, extent[rank - 1] * element_bytes);
      std::size_t i = rank - 1;
      while (i-- > 0) {
        if (++at[i] < extent[i]) break;
        at[i] = 0;
      }
      if (i == static_cast<std::size_t>(-1)) return;
    }
  }

  [[nodiscard]] std::vector<h5map::Chunk> all_chunks() const {
    const std::lock_guard guard(*lock);
    return table->all();
  }

  // Bytes of the dataset in one row of the grid, which may have fewer elements when it is the last.
  [[nodiscard]] std::uint64_t row_bytes() const noexcept {
    const std::uint64_t rows = table->grid().chunk()[0];
    return rows >= shape[0] ? bytes : bytes / shape[0] * rows;
  }

  [[nodiscard]] std::vector<h5map::Chunk> chunks_of_rows(std::uint64_t first, std::uint64_t end) {
    const std::uint64_t in_row = table->grid().count() / table->grid().cells()[0];
    if (first == 0 && end == table->grid().cells()[0]) return all_chunks();
    const std::lock_guard guard(*lock);
    std::vector<h5map::Chunk> chunks;
    for (std::uint64_t cell = first * in_row; cell < end * in_row; ++cell) {
      if (auto chunk = table->find(cell)) chunks.push_back(*chunk);
    }
    return chunks;
  }

  // Whole rows of the grid, from byte `first` of the dataset on.
  void read_rows(const Hdf5Values& values, std::uint64_t first, std::span<std::uint8_t> out) {
    fill_in(first, out);
    const std::uint64_t row = row_bytes();
    const auto chunks = chunks_of_rows(first / row, (first + out.size() + row - 1) / row);
    const auto copy = [&](std::size_t i) {
      const std::vector<std::uint8_t> decoded_bytes = values.decode(chunks[i]);
      scatter(chunks[i].cell, [&](std::uint64_t from, std::uint64_t to, std::uint64_t count) {
        std::memcpy(out.data() + (to - first), decoded_bytes.data() + from, count);
      });
    };
    parallel_for(chunks.size(), copy, table->grid().chunk_bytes());
  }
};

Hdf5Values::Hdf5Values(const ValueSource& source, const h5map::Dataset& dataset)
    : state_(std::make_unique<State>(source, dataset.path, dataset.problem)) {
  State& state = *state_;
  if (!state.problem.empty()) return;
  state.shape = dataset.space.shape;
  state.element_bytes = dataset.type->bytes;
  state.bytes = dataset.space.element_count() * state.element_bytes;
  state.layout = dataset.layout;
  state.fill = dataset.fill;
  state.type_message = dataset.type_message;
  if (state.layout.storage != Storage::chunked || state.bytes == 0) return;
  try {
    state.table.emplace(source.file.source(), source.file.frame(), state.layout, dataset.space.shape,
                        dataset.space.max_shape, state.element_bytes, dataset.path);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    state.problem = error.what();
  }
}

Hdf5Values::Hdf5Values(const ValueSource& source, const std::string& path, const h5map::Attribute& attribute)
    : state_(std::make_unique<State>(source, path, attribute.problem)) {
  State& state = *state_;
  if (!state.problem.empty()) return;
  state.shape = attribute.space.shape;
  state.element_bytes = attribute.type->bytes;
  state.bytes = attribute.space.element_count() * state.element_bytes;
  state.layout.storage = Storage::compact;
  state.layout.offset = attribute.offset;
  state.layout.bytes = attribute.bytes;
  state.layout.seal = attribute.seal;
  state.shared = attribute.shared;
  if (attribute.bytes < state.bytes) state.problem = "its value is cut short";
}

Hdf5Values::~Hdf5Values() = default;

std::uint64_t Hdf5Values::bytes() const noexcept { return state_->bytes; }
const h5map::ChunkTable* Hdf5Values::chunks() const noexcept {
  return state_->table ? &*state_->table : nullptr;
}

std::uint64_t Hdf5Values::chunk_bytes() const noexcept {
  return state_->table ? state_->table->grid().chunk_bytes() : 0;
}

const std::string& Hdf5Values::unreadable() const noexcept { return state_->problem; }

std::string Hdf5Values::unalterable() const {
  const State& state = *state_;
  if (!state.problem.empty()) return state.problem;
  if (state.shared) return "it is a shared message in a heap of the file: other objects may have it too";
  switch (state.layout.storage) {
    case Storage::virtual_source:
      return "it is virtual, its values are those of other datasets (" +
             sources_text(state.layout.virtual_sources) + "): alter them there";
    case Storage::external:
      return "its values lie in another file (" +
             (state.layout.external.empty() ? "?" : state.layout.external.front().file) +
             "), which every copy of this one shares";
    case Storage::chunked: {
      if (state.bytes == 0) return "";
      std::uint64_t stored = 0;
      const std::lock_guard guard(*state.lock);
      state.table->visit([&](const h5map::Chunk&) { ++stored; });
      const std::uint64_t all = state.table->grid().count();
      if (stored == all) return "";
      if (stored == 0) break;
      return fmt::format("{} of its {} chunks are not stored, only a fill value", all - stored, all);
    }
    case Storage::contiguous:
    case Storage::compact:
      if (state.layout.offset != undefined || state.bytes == 0) return "";
  }
  return "no bytes are stored for it, only a fill value";
}

void Hdf5Values::read(std::uint64_t first, std::span<std::uint8_t> out) const {
  State& state = *state_;
  if (!state.problem.empty()) fail(ErrorCode::bad_file, "{}: {}", state.where, state.problem);
  if (first > state.bytes || out.size() > state.bytes - first) {
    fail(ErrorCode::internal, "{}: bytes {} + {} of {} are not there to be read", state.where, first,
         out.size(), state.bytes);
  }
  if (out.empty()) return;
  switch (state.layout.storage) {
    case Storage::contiguous:
    case Storage::compact:
      if (state.layout.offset == undefined) return state.fill_in(first, out);
      return read_at(*state.fd, out.data(), out.size(), state.layout.offset + first,
                     state.file->source().name());
    case Storage::virtual_source:
      fail(ErrorCode::unsupported, "{}: is virtual, its values are those of other datasets ({})", state.where,
           sources_text(state.layout.virtual_sources));
    case Storage::external:
      return read_external(state.file->source().name(), state.where, state.layout.external, first, out);
    case Storage::chunked:
      break;
  }
  const std::uint64_t row = state.row_bytes();
  if (first % row == 0 && (out.size() % row == 0 || first + out.size() == state.bytes)) {
    return state.read_rows(*this, first, out);
  }
  const std::lock_guard guard(*state.lock);
  for (std::uint64_t done = 0; done < out.size();) {
    const auto at = state.split(first + done);
    const std::uint64_t count = std::min<std::uint64_t>(at.run, out.size() - done);
    const auto piece = out.subspan(done, count);
    const auto chunk = state.find(at.cell);
    if (!chunk) {
      state.fill_in(first + done, piece);
    } else if (state.unfiltered(*chunk)) {
      read_at(*state.fd, piece.data(), count, chunk->offset + at.within, state.file->source().name());
    } else {
      std::memcpy(piece.data(), state.decoded(*this, *chunk).data() + at.within, count);
    }
    done += count;
  }
}

std::uint64_t Hdf5Values::stride() const noexcept {
  if (!state_->table || state_->bytes == 0) return 1;
  const h5map::ChunkGrid& grid = state_->table->grid();
  // Then the cached chunk serves all its reads, and no second copy is made.
  const bool one_a_row = grid.count() == grid.cells()[0];
  return one_a_row && grid.chunk_bytes() > ChunkCache::most_bytes ? 1 : state_->row_bytes();
}

Hdf5Values::Spot Hdf5Values::locate(std::uint64_t byte) const {
  State& state = *state_;
  if (const Storage storage = state.layout.storage; storage != Storage::chunked) {
    if (storage == Storage::virtual_source || storage == Storage::external ||
        state.layout.offset == undefined) {
      fail(ErrorCode::unsupported, "{}: {}", state.where, unalterable());
    }
    return {state.layout.offset + byte, state.bytes - byte, std::nullopt, state.layout.seal};
  }
  const auto at = state.split(byte);
  const std::lock_guard guard(*state.lock);
  const auto chunk = state.find(at.cell);
  if (!chunk) {
    fail(ErrorCode::unsupported, "{}: byte {} is not stored, only a fill value", state.where, byte);
  }
  if (state.unfiltered(*chunk)) return {chunk->offset + at.within, at.run, std::nullopt, std::nullopt};
  return {at.within, at.run, chunk, std::nullopt};
}

std::vector<std::uint8_t> Hdf5Values::decode(const h5map::Chunk& chunk) const {
  State& state = *state_;
  const std::uint64_t size = state.table->grid().chunk_bytes();
  const bool unfiltered = state.unfiltered(chunk);
  const bool known = unfiltered || h5map::codec_knows(state.layout.filters, chunk.mask);
  const std::string name = state.chunk_name(chunk);
  // An impossible claim is damage, however much memory there is.
  if (known && !unfiltered) {
    h5map::check_claim(state.layout.filters, chunk.mask, chunk.bytes, size, name);
  }
  const auto values = [&] {
    std::vector<std::uint8_t> raw = state.stored(chunk);
    if (unfiltered) return raw;
    if (known) return h5map::decode_chunk(state.layout.filters, chunk.mask, raw, size, name);
    return state.coder().decode(raw, chunk.mask);
  };
  return with_memory(times(size, unfiltered ? 1 : (known ? copies : pipeline_copies)), name, values);
}

EncodedChunk Hdf5Values::recode(const h5map::Chunk& chunk, const h5map::ValueChange& change) const {
  State& state = *state_;
  const std::string name = state.chunk_name(chunk);
  const std::uint64_t size = state.table->grid().chunk_bytes();
  const auto& filters = state.layout.filters;
  if (h5map::codec_knows(filters, chunk.mask)) {
    h5map::check_claim(filters, chunk.mask, chunk.bytes, size, name);
    return with_memory(times(size, recoded_copies), name, [&] {
      return EncodedChunk{h5map::recode_chunk(filters, chunk.mask, state.stored(chunk), size, change, name),
                          chunk.mask};
    });
  }
  std::vector<std::uint8_t> values = decode(chunk);
  change(values);
  h5::Recoded coded =
      with_memory(values.size() * pipeline_copies, name, [&] { return state.coder().recode(values); });
  if (!coded.differing.empty()) {
    fail(ErrorCode::unsupported,
         "{}: its filters do not keep every value: {} elements of the chunk would read back changed, the "
         "first "
         "at place {} in it",
         name, coded.differing.size(), coded.differing.front());
  }
  return {std::move(coded.stored.bytes), coded.stored.mask};
}

std::vector<Hdf5Values::StoredRun> Hdf5Values::stored_runs() const {
  const State& state = *state_;
  if (!state.problem.empty() || state.bytes == 0) return {};
  if (state.table) {
    std::vector<StoredRun> runs;
    for (const h5map::Chunk& chunk : state.all_chunks()) runs.push_back({chunk.offset, chunk.bytes});
    return runs;
  }
  const Storage storage = state.layout.storage;
  const bool placed = storage == Storage::contiguous || storage == Storage::compact;
  if (!placed || state.layout.offset == undefined) return {};
  return {{state.layout.offset, state.bytes}};
}

}  // namespace bitrift::ckpt
