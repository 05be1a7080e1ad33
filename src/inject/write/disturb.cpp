#include "inject/write/disturb.h"

#include <algorithm>
#include <deque>
#include <map>
#include <span>

#include <fcntl.h>

#include "core/error.h"
#include "core/file_run.h"

namespace bitrift::inject {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// The bits of a stored element to invert, as bytes.
Bytes inverted_bits(NumberFormat format, ByteOrder order) {
  std::uint64_t mask = 1;
  if (format.kind == NumberKind::floating)
    mask |= sign_mask(format) | std::uint64_t{1} << format.mantissa_bits;
  format.order = order;
  Bytes bytes(format.bytes);
  store_pattern(format, mask, bytes.data());
  return bytes;
}

class Disturber {
 public:
  Disturber(const ckpt::Reader& reader, const std::filesystem::path& copy)
      : reader_(reader),
        from_(reader.files(), O_RDONLY),
        to_(reader.files().in(copy), O_WRONLY),
        rewriter_(reader.container().rewriter()) {}

  void disturb(const std::string& path) {
    const ckpt::TensorInfo* const tensor = reader_.find(path);
    if (tensor == nullptr) fail(ErrorCode::not_found, "{}: has no tensor {}", reader_.path().string(), path);
    if (!tensor->refusal.empty()) {
      fail(ErrorCode::unsupported, "{}: {} cannot be altered: {}", reader_.path().string(), path,
           tensor->refusal);
    }
    const Bytes& mask = masks_.emplace_back(inverted_bits(*tensor->format, tensor->order));
    const std::uint64_t elements = tensor->elements();
    if (tensor->offset) return disturb_run(*tensor->offset, elements, mask);
    const ckpt::Values& values = reader_.values(*tensor);
    for (std::uint64_t element = 0; element < elements;) {
      const auto spot = values.locate(tensor->byte_of(element));
      const std::uint64_t run = tensor->whole() ? std::max<std::uint64_t>(spot.run / mask.size(), 1) : 1;
      const std::uint64_t count = std::min(run, elements - element);
      if (spot.bit) {  // a whole number of bytes: one run of all elements
        disturb_run(spot.at, count / 2, in_both_halves(mask));
      } else if (spot.chunk) {
        Chunk& chunk = chunks_[spot.chunk->offset];
        chunk.values = &values;
        chunk.place = *spot.chunk;
        chunk.runs.push_back({spot.at, count, &mask});
      } else if (spot.seal) {
        Bytes bytes(count * mask.size());
        from_.read(bytes.data(), bytes.size(), spot.at);
        invert(bytes, mask);
        rewriter_->put(spot.at, bytes, *spot.seal);
      } else {
        disturb_run(spot.at, count, mask);
      }
      element += count;
    }
  }

  void finish() {
    for (const auto& [offset, one] : chunks_) {
      const Chunk& chunk = one;
      rewriter_->put_chunk(*chunk.values, chunk.place,
                           chunk.values->recode(chunk.place, [&chunk](std::span<std::uint8_t> decoded) {
                             for (const Run& run : chunk.runs)
                               invert(decoded.subspan(run.at, run.elements * run.mask->size()), *run.mask);
                           }));
    }
    for (const auto& [offset, bytes] : rewriter_->finish()) to_.write(bytes.data(), bytes.size(), offset);
  }

 private:
  /// Elements that follow each other.
  struct Run {
    std::uint64_t at = 0;  ///< of the first, in the decoded chunk
    std::uint64_t elements = 0;
    const Bytes* mask = nullptr;
  };
  /// A filtered chunk, which several tensors may have a part of.
  struct Chunk {
    const ckpt::Values* values = nullptr;
    h5map::Chunk place;
    std::vector<Run> runs;
  };

  /// The mask of an element of four bits, for a byte of two.
  static Bytes in_both_halves(const Bytes& mask) {
    return {static_cast<std::uint8_t>(mask.front() | mask.front() << 4U)};
  }
  static void invert(std::span<std::uint8_t> elements, const Bytes& mask) {
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] ^= mask[i % mask.size()];
  }

  /// Elements that follow each other in the file.
  void disturb_run(std::uint64_t offset, std::uint64_t elements, const Bytes& mask) {
    const std::uint64_t most = (std::uint64_t{1} << 20U) / mask.size();
    Bytes before, after;
    for (std::uint64_t done = 0; done < elements;) {
      const std::uint64_t count = std::min(most, elements - done);
      before.resize(count * mask.size());
      const std::uint64_t at = offset + done * mask.size();
      from_.read(before.data(), before.size(), at);
      after = before;
      invert(after, mask);
      to_.write(after.data(), after.size(), at);
      rewriter_->change(at, before, after);
      done += count;
    }
  }

  const ckpt::Reader& reader_;
  FileRun from_, to_;
  std::unique_ptr<ckpt::Rewriter> rewriter_;
  std::deque<Bytes> masks_;                // of each tensor
  std::map<std::uint64_t, Chunk> chunks_;  // by their places in the file
};

}  // namespace

void disturb(const ckpt::Reader& reader, const std::filesystem::path& copy,
             const std::vector<std::string>& tensors) {
  Disturber disturber(reader, copy);
  for (const std::string& tensor : tensors) disturber.disturb(tensor);
  disturber.finish();
}

}  // namespace bitrift::inject
