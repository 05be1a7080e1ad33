#include "ckpt/container/nested/packed_file.h"

#include <algorithm>
#include <utility>

#include "ckpt/container/array_block.h"
#include "core/error.h"
#include "core/unnamed_file.h"

namespace bitrift::ckpt {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// Tells a rewriter about each run of bytes that differ.
void change_differing(Rewriter& rewriter, std::span<const std::uint8_t> before,
                      std::span<const std::uint8_t> after) {
  for (std::size_t first = 0; first < before.size();) {
    const auto differ = std::mismatch(before.begin() + static_cast<std::ptrdiff_t>(first), before.end(),
                                      after.begin() + static_cast<std::ptrdiff_t>(first));
    first = static_cast<std::size_t>(differ.first - before.begin());
    std::size_t end = first;
    while (end < before.size() && before[end] != after[end]) ++end;
    if (end > first)
      rewriter.change(first, before.subspan(first, end - first), after.subspan(first, end - first));
    first = end;
  }
}

/// Values of a deflated file, which are altered by packing the whole file again.
class PackedValues final : public Values {
 public:
  PackedValues(std::unique_ptr<Values> inner, std::shared_ptr<const Member> member, const Container& content)
      : inner_(std::move(inner)), member_(std::move(member)), content_(content) {}

  [[nodiscard]] std::uint64_t bytes() const noexcept override { return inner_->bytes(); }
  [[nodiscard]] const std::string& unreadable() const noexcept override { return inner_->unreadable(); }
  [[nodiscard]] std::string unalterable() const override {
    if (std::string reason = inner_->unalterable(); !reason.empty() || bytes() == 0) return reason;
    try {
      return problem_of(inner_->locate(0));
    } catch (const Error& error) {  // its first value is not stored
      if (error.code() == ErrorCode::io) throw;
      return error.what();
    }
  }
  void read(std::uint64_t first, std::span<std::uint8_t> out) const override { inner_->read(first, out); }
  [[nodiscard]] std::uint64_t stride() const noexcept override { return inner_->stride(); }
  [[nodiscard]] Spot locate(std::uint64_t byte) const override {
    Spot spot = inner_->locate(byte);
    if (const std::string problem = problem_of(spot); !problem.empty())
      fail(ErrorCode::unsupported, "{}: {}", member_->where, problem);
    h5map::Chunk chunk;
    chunk.offset = member_->data;
    chunk.bytes = member_->stored_bytes;
    chunk.filtered = true;
    spot.chunk = chunk;
    return spot;
  }
  [[nodiscard]] std::uint64_t chunk_bytes() const noexcept override { return member_->bytes; }
  [[nodiscard]] Bytes decode(const h5map::Chunk&) const override { return unpacked(*member_); }
  [[nodiscard]] EncodedChunk recode(const h5map::Chunk&, const h5map::ValueChange& change) const override {
    return repacked(*member_, [&](std::span<std::uint8_t> bytes) {
      const Bytes before(bytes.begin(), bytes.end());
      change(bytes);
      const auto rewriter = content_.rewriter();
      change_differing(*rewriter, before, bytes);
      for (const auto& [offset, sums] : rewriter->finish()) {
        if (offset > bytes.size() || sums.size() > bytes.size() - offset)
          fail(ErrorCode::internal, "{}: its content would become longer", member_->where);
        std::ranges::copy(sums, bytes.begin() + static_cast<std::ptrdiff_t>(offset));
      }
    });
  }
  [[nodiscard]] std::vector<StoredRun> stored_runs() const override {
    return {{member_->data, member_->stored_bytes}};
  }

 private:
  /// Why a value there cannot be altered; "" if it can.
  static std::string problem_of(const Spot& spot) {
    if (spot.chunk) return "it is compressed in a compressed file; unpack it from the archive (`unzip`)";
    if (spot.seal) return "a checksum covers it in a compressed file; unpack it from the archive (`unzip`)";
    return "";
  }

  std::unique_ptr<Values> inner_;
  std::shared_ptr<const Member> member_;
  const Container& content_;
};

}  // namespace

FileDescriptor unpacked_file(const Member& member) { return memory_file(unpacked(member), member.where); }

void pack_block(Block& block, std::shared_ptr<const Member> member, const Container& content,
                std::uint64_t base, const std::string& prefix) {
  block.values = std::make_unique<PackedValues>(std::move(block.values), std::move(member), content);
  place_block(block, base, prefix, "");
  for (TensorInfo& tensor : block.tensors) {
    tensor.offset.reset();
    tensor.storage = storage_of_packed_file;
  }
}

}  // namespace bitrift::ckpt
