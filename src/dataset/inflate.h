// Bytes of a file that may be gzipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <zlib.h>

namespace bitrift::nn {

/// Inflates content that starts with gzip's magic, and returns any other content unchanged, step by step, so
/// that a file cannot make its reader hold more than it asked for. `path` is for messages; both must outlive
/// the source.
class ByteSource {
 public:
  /// Throws Error(unsupported) for content beyond 4 GiB.
  ByteSource(const std::filesystem::path& path, std::string_view content);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Up to `size` next bytes; fewer only at the end. Throws Error(bad_file) for truncated or damaged gzip.
  std::size_t read(std::uint8_t* out, std::size_t size);
  /// Bytes after the end of the compressed stream.
  [[nodiscard]] std::size_t left_over() const { return gzip_ && ended_ ? stream_.avail_in : 0; }

 private:
  std::size_t inflate_some(std::uint8_t* out, std::size_t size);

  const std::filesystem::path& path_;
  std::string_view content_;
  std::size_t position_ = 0;
  bool gzip_ = false, ended_ = false;
  z_stream stream_{};
};

/// The whole file, inflated when it is gzipped. Throws Error(not_found | io | bad_file), and
/// Error(unsupported) for text beyond `limit` bytes.
[[nodiscard]] std::string read_inflated(const std::filesystem::path& path, std::size_t limit);

}  // namespace bitrift::nn
