#include <array>
#include <limits>
#include <string_view>

#include <zlib.h>

#include "core/error.h"
#include "core/file.h"
#include "nn/dataset.h"

namespace bitrift::nn {
namespace {

// Inflates gzip data step by step, so that a file cannot make us hold more than its header admits.
class Source {
 public:
  Source(const std::filesystem::path& path, std::string_view content) : path_(path), content_(content) {
    gzip_ = content.size() >= 2 && content[0] == '\x1f' && content[1] == '\x8b';
    if (!gzip_) return;
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) fail(ErrorCode::internal, "zlib cannot start");
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content_.data()));
    stream_.avail_in = static_cast<uInt>(content_.size());
  }
  ~Source() {
    if (gzip_) inflateEnd(&stream_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  // Up to `size` next bytes; fewer only at the end.
  std::size_t read(std::uint8_t* out, std::size_t size) {
    if (!gzip_) {
      const std::size_t count = std::min(size, content_.size() - position_);
      std::copy_n(content_.data() + position_, count, reinterpret_cast<char*>(out));
      position_ += count;
      return count;
    }
    std::size_t done = 0;
    while (done < size && !ended_) done += inflate_some(out + done, size - done);
    return done;
  }

  // What stands after the end of the compressed stream.
  [[nodiscard]] std::size_t left_over() const { return gzip_ && ended_ ? stream_.avail_in : 0; }

 private:
  std::size_t inflate_some(std::uint8_t* out, std::size_t size) {
    const uInt room = static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
    stream_.next_out = out;
    stream_.avail_out = room;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      ended_ = true;
    } else if (code != Z_OK) {
      fail(
          ErrorCode::bad_file,
          "{}: expected a whole gzip stream, found it {} after {} of {} compressed bytes; get the file again",
          path_.string(), code == Z_BUF_ERROR ? "truncated" : "damaged", stream_.total_in, content_.size());
    }
    return room - stream_.avail_out;
  }

  const std::filesystem::path& path_;
  std::string_view content_;
  std::size_t position_ = 0;
  bool gzip_ = false, ended_ = false;
  z_stream stream_{};
};

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
         static_cast<std::uint32_t>(bytes[2]) << 8 | static_cast<std::uint32_t>(bytes[3]);
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, int dimensions) {
  const std::string content = read_text(path);
  if (content.size() > std::numeric_limits<uInt>::max()) {
    fail(ErrorCode::unsupported, "{}: IDX files beyond 4 GiB are not read", path.string());
  }
  Source source(path, content);
  const auto header_size = 4 + 4 * static_cast<std::size_t>(dimensions);
  std::array<std::uint8_t, 4 + 4 * 4> header{};
  if (const std::size_t found = source.read(header.data(), header_size); found < header_size) {
    fail(ErrorCode::bad_file, "{}: expected an IDX header of {} bytes, found {} bytes", path.string(),
         header_size, found);
  }
  const std::uint32_t magic = 0x800U + static_cast<std::uint32_t>(dimensions);
  if (const std::uint32_t found = big_endian(header.data()); found != magic) {
    fail(ErrorCode::bad_file,
         "{}: expected the IDX magic number {:#010x} (unsigned bytes, {} dimensions), found {:#010x}",
         path.string(), magic, dimensions, found);
  }
  IdxArray array;
  std::uint64_t size = 1;
  for (std::size_t d = 0; d < static_cast<std::size_t>(dimensions); ++d) {
    const std::uint32_t extent = big_endian(header.data() + 4 + 4 * d);
    // Deflate packs at most 1032 to 1: a header that promises more than that lies.
    if (extent == 0 || extent > (content.size() + 1) * 1032 / size) {
      fail(ErrorCode::bad_file,
           "{}: expected dimensions that fit a file of {} bytes, found dimension {} to be {}", path.string(),
           content.size(), d, extent);
    }
    size *= extent;
    array.shape.push_back(extent);
  }
  array.bytes.resize(size);
  if (const std::size_t found = source.read(array.bytes.data(), size); found < size) {
    fail(ErrorCode::bad_file, "{}: expected {} bytes of data after the header, found {}", path.string(), size,
         found);
  }
  std::uint8_t extra = 0;
  if (source.read(&extra, 1) != 0 || source.left_over() != 0) {
    fail(ErrorCode::bad_file, "{}: expected {} bytes of data after the header, found more bytes behind them",
         path.string(), size);
  }
  return array;
}

}  // namespace bitrift::nn
