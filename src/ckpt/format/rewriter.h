// The other parts of a file that must change when some of its values do.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "ckpt/format/values.h"
#include "core/error.h"

namespace bitrift::ckpt {

/// The bytes to write to a file, by their offset: none overlap, and none lie on both sides of its end.
using NewBytes = std::map<std::uint64_t, std::vector<std::uint8_t>>;

/// Collects the alterations of one file and returns the bytes to write, so that the file stays sound for
/// every reader. The file itself is only read, and must outlive it.
class Rewriter {
 public:
  Rewriter() = default;
  virtual ~Rewriter() = default;
  Rewriter(Rewriter&&) = delete;
  Rewriter& operator=(Rewriter&&) = delete;

  /// Values that are stored unchanged are altered in place, by the caller: this updates the checksums that
  /// cover them. Both spans must have the same size.
  virtual void change(std::uint64_t offset, std::span<const std::uint8_t> before,
                      std::span<const std::uint8_t> after) = 0;
  /// Writes bytes in place that a checksum covers.
  virtual void put(std::uint64_t offset, std::span<const std::uint8_t> bytes, const h5map::Seal& seal) = 0;
  /// Gives a chunk new stored bytes. Throws Error(unsupported) when the file cannot express their size or
  /// place.
  virtual void put_chunk(const Values& values, const h5map::Chunk& chunk, EncodedChunk encoded) = 0;
  /// All changes except those of change(); bytes beyond the end of the file lengthen it.
  [[nodiscard]] virtual NewBytes finish() = 0;
};

/// For formats in which nothing depends on the values of tensors.
class NothingFollows final : public Rewriter {
 public:
  void change(std::uint64_t, std::span<const std::uint8_t>, std::span<const std::uint8_t>) override {}
  void put(std::uint64_t, std::span<const std::uint8_t>, const h5map::Seal&) override { absent(); }
  void put_chunk(const Values&, const h5map::Chunk&, EncodedChunk) override { absent(); }
  [[nodiscard]] NewBytes finish() override { return {}; }

 private:
  [[noreturn]] static void absent() {
    fail(ErrorCode::internal, "this format has neither checksums nor chunks");
  }
};

}  // namespace bitrift::ckpt
