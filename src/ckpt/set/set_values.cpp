#include "ckpt/set/set_values.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"

namespace bitrift::ckpt {

PiecedValues::PiecedValues(std::vector<std::uint64_t> shape, std::uint64_t element_bytes,
                           std::vector<ValuePiece> pieces, std::string where)
    : shape_(std::move(shape)),
      element_bytes_(element_bytes),
      pieces_(std::move(pieces)),
      where_(std::move(where)) {
  bytes_ = std::accumulate(shape_.begin(), shape_.end(), element_bytes_, std::multiplies<>());
  for (const ValuePiece& piece : pieces_) {
    if (unreadable_.empty()) unreadable_ = piece.values->unreadable();
  }
}

std::string PiecedValues::unalterable() const {
  for (const ValuePiece& piece : pieces_) {
    if (std::string reason = piece.values->unalterable(); !reason.empty()) return reason;
  }
  return "";
}

/// Within a piece, elements follow each other as in the tensor up to the end of the piece in the last
/// dimension that it does not fill.
PiecedValues::Place PiecedValues::place(std::uint64_t byte) const {
  const std::size_t dimensions = shape_.size();
  std::vector<std::uint64_t> index(dimensions);
  std::uint64_t rest = byte / element_bytes_;
  for (std::size_t i = dimensions; i-- > 0; rest /= shape_[i]) index[i] = rest % shape_[i];
  for (const ValuePiece& piece : pieces_) {
    bool inside = true;
    for (std::size_t i = 0; inside && i < dimensions; ++i)
      inside = index[i] >= piece.first[i] && index[i] - piece.first[i] < piece.shape[i];
    if (!inside) continue;
    std::uint64_t element = 0, behind = 0, below = 1;
    bool filled = true;
    for (std::size_t i = 0; i < dimensions; ++i)
      element = element * piece.shape[i] + index[i] - piece.first[i];
    for (std::size_t i = dimensions; filled && i-- > 0; below *= piece.shape[i]) {
      behind += (piece.shape[i] - 1 - (index[i] - piece.first[i])) * below;
      filled = piece.shape[i] == shape_[i];
    }
    const std::uint64_t within = byte % element_bytes_;
    if (piece.order) return {&piece, piece.order->byte_of(element) + within, element_bytes_ - within};
    return {&piece, element * element_bytes_ + within, (behind + 1) * element_bytes_ - within};
  }
  fail(ErrorCode::bad_file, "{}: element {} is in none of its pieces", where_, byte / element_bytes_);
}

void PiecedValues::read(std::uint64_t first, std::span<std::uint8_t> out) const {
  for (std::size_t done = 0; done < out.size();) {
    const Place here = place(first + done);
    const std::size_t piece = std::min<std::uint64_t>(here.run, out.size() - done);
    here.piece->values->read(here.byte, out.subspan(done, piece));
    done += piece;
  }
}

Values::Spot PiecedValues::locate(std::uint64_t byte) const {
  const Place here = place(byte);
  Spot spot = here.piece->values->locate(here.byte);
  spot.run = std::min(spot.run, here.run);
  return spot;
}

std::vector<Values::StoredRun> PiecedValues::stored_runs() const {
  std::vector<StoredRun> runs;
  for (const ValuePiece& piece : pieces_) {
    for (const StoredRun& run : piece.values->stored_runs()) runs.push_back(run);
  }
  return runs;
}

}  // namespace bitrift::ckpt
