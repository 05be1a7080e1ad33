// Decoded chunks that are kept for the next read.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace bitrift::ckpt {

/// The chunks of one file that were decoded last, of all its datasets together: as many as fit in
/// `most_bytes`, or a single one that is larger. One thread at a time.
class ChunkCache {
 public:
  static constexpr std::uint64_t most_bytes = std::uint64_t{64} << 20U;
  using Bytes = std::vector<std::uint8_t>;

  /// The values of a cell of an owner's chunks, of `bytes` bytes; `decode` computes them if they are not
  /// here. Other chunks are dropped before it is called. Valid until the next call.
  template <typename Decode>
  const Bytes& get(const void* owner, std::uint64_t cell, std::uint64_t bytes, const Decode& decode) {
    const std::pair key(owner, cell);
    const auto known = chunks_.find(key);
    if (known != chunks_.end()) return known->second;
    if (bytes > most_bytes || kept_bytes_ > most_bytes - bytes) {
      chunks_.clear();
      kept_bytes_ = 0;
    }
    Bytes values = decode();
    kept_bytes_ += values.size();
    return chunks_.emplace(key, std::move(values)).first->second;
  }

 private:
  std::map<std::pair<const void*, std::uint64_t>, Bytes> chunks_;
  std::uint64_t kept_bytes_ = 0;
};

}  // namespace bitrift::ckpt
