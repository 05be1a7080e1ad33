#include "ckpt/format/shifted_values.h"

#include <utility>

#include "core/error.h"

namespace bitrift::ckpt {
namespace {

constexpr const char* packed_part = "it is compressed; alter its file by itself";

[[noreturn]] void no_chunks() { fail(ErrorCode::internal, "compressed values of a part are not altered"); }

}  // namespace

ShiftedValues::ShiftedValues(std::unique_ptr<Values> inner, std::uint64_t base)
    : inner_(std::move(inner)), base_(base) {}

std::string ShiftedValues::unalterable() const {
  std::string reason = inner_->unalterable();
  return reason.empty() && inner_->chunk_bytes() > 0 ? packed_part : reason;
}

Values::Spot ShiftedValues::locate(std::uint64_t byte) const {
  Spot spot = inner_->locate(byte);
  if (spot.chunk) no_chunks();
  spot.at += base_;
  return spot;
}

std::vector<std::uint8_t> UnchunkedValues::decode(const h5map::Chunk&) const { no_chunks(); }
EncodedChunk UnchunkedValues::recode(const h5map::Chunk&, const h5map::ValueChange&) const { no_chunks(); }

std::vector<Values::StoredRun> ShiftedValues::stored_runs() const {
  std::vector<StoredRun> runs = inner_->stored_runs();
  for (StoredRun& run : runs) run.offset += base_;
  return runs;
}

}  // namespace bitrift::ckpt
