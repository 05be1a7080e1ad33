// The values of an array that is stored as one run of bytes: in a member of an archive, or in a file.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "archive/bounded_file.h"
#include "ckpt/format/chunk_cache.h"
#include "ckpt/format/values.h"

namespace bitrift::ckpt {

/// One run of bytes in a file: a member of a zip archive, or a tensor of a safetensors file.
struct Member {
  const archive::BoundedFile& file;
  std::mutex& lock;  ///< of `kept`
  ChunkCache& kept;
  std::string where;               ///< file and member, for messages
  std::uint64_t data = 0;          ///< of its stored bytes in the file
  std::uint64_t stored_bytes = 0;  ///< as stored
  std::uint64_t bytes = 0;         ///< decoded
  bool deflated = false;
  std::uint32_t crc32 = 0;  ///< of the decoded bytes of a deflated member
  std::string problem;      ///< why nothing can be read; "" if it can
};

/// The content of a deflated member, whose CRC-32 is checked. Throws Error(bad_file) for damage, Error(io) if
/// memory is short.
[[nodiscard]] std::vector<std::uint8_t> unpacked(const Member& member);

/// The stored form of a deflated member after `change` has altered its content in place. Takes at most four
/// times the content's size, and what `change` takes. Throws as unpacked(), and what `change` throws.
[[nodiscard]] EncodedChunk repacked(const Member& member, const h5map::ValueChange& change);

/// A part of a member, decoded. A deflated member takes at most four times its decoded size while it is read,
/// six times while it is altered; its CRC-32 is checked, that of a stored member is not.
class MemberValues final : public Values {
 public:
  /// Bytes [first, first + bytes) of the decoded member, which must exist.
  MemberValues(std::shared_ptr<const Member> member, std::uint64_t first, std::uint64_t bytes);

  [[nodiscard]] std::uint64_t bytes() const noexcept override { return bytes_; }
  [[nodiscard]] const std::string& unreadable() const noexcept override { return member_->problem; }
  [[nodiscard]] std::string unalterable() const override { return member_->problem; }
  void read(std::uint64_t first, std::span<std::uint8_t> out) const override;
  [[nodiscard]] std::uint64_t stride() const noexcept override { return 1; }
  [[nodiscard]] Spot locate(std::uint64_t byte) const override;
  [[nodiscard]] std::uint64_t chunk_bytes() const noexcept override;
  [[nodiscard]] std::vector<std::uint8_t> decode(const h5map::Chunk& chunk) const override;
  [[nodiscard]] EncodedChunk recode(const h5map::Chunk& chunk,
                                    const h5map::ValueChange& change) const override;
  [[nodiscard]] std::vector<StoredRun> stored_runs() const override;

 private:
  std::shared_ptr<const Member> member_;
  std::uint64_t first_, bytes_;
};

}  // namespace bitrift::ckpt
