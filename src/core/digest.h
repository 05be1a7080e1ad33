// Content digests: XXH3, 128 bits, as 32 hexadecimal digits (what `xxhsum -H2` and Python's xxhash print).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace bitrift {

/// Streaming digest.
class Digest {
 public:
  Digest();
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  Digest& add(const void* data, std::size_t size);
  Digest& add(std::string_view text) { return add(text.data(), text.size()); }
  [[nodiscard]] std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Digest of a memory range.
[[nodiscard]] std::string digest_bytes(const void* data, std::size_t size);
/// XXH3, 64 bits, with a seed: for blocks of which each has a number, so that one in another's place shows.
[[nodiscard]] std::uint64_t block_digest(const void* data, std::size_t size, std::uint64_t number) noexcept;
/// Digest of a whole file, read in pieces of 4 MiB. Throws Error(not_found | io).
[[nodiscard]] std::string digest_file(const std::filesystem::path& path);

}  // namespace bitrift
