#include "dataset/inflate.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/file.h"

namespace bitrift::nn {

ByteSource::ByteSource(const std::filesystem::path& path, std::string_view content)
    : path_(path), content_(content) {
  gzip_ = content.size() >= 2 && content[0] == '\x1f' && content[1] == '\x8b';
  if (!gzip_) return;
  if (content.size() > std::numeric_limits<uInt>::max()) {
    fail(ErrorCode::unsupported, "{}: gzipped files over 4 GiB are not supported: decompress it first",
         path.string());
  }
  if (inflateInit2(&stream_, 15 + 16) != Z_OK) fail(ErrorCode::internal, "zlib cannot start");
  stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content_.data()));
  stream_.avail_in = static_cast<uInt>(content_.size());
}

ByteSource::~ByteSource() {
  if (gzip_) inflateEnd(&stream_);
}

std::size_t ByteSource::read(std::uint8_t* out, std::size_t size) {
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

std::size_t ByteSource::inflate_some(std::uint8_t* out, std::size_t size) {
  const uInt room = static_cast<uInt>(std::min<std::size_t>(size, std::numeric_limits<uInt>::max()));
  stream_.next_out = out;
  stream_.avail_out = room;
  const int code = inflate(&stream_, Z_NO_FLUSH);
  if (code == Z_STREAM_END) {
    ended_ = true;
  } else if (code != Z_OK) {
    fail(ErrorCode::bad_file,
         "{}: expected a whole gzip stream, found it {} after {} of {} compressed bytes; get the file again",
         path_.string(), code == Z_BUF_ERROR ? "truncated" : "damaged", stream_.total_in, content_.size());
  }
  return room - stream_.avail_out;
}

std::string read_inflated(const std::filesystem::path& path, std::size_t limit) {
  const std::string content = read_text(path);
  ByteSource source(path, content);
  std::string text;
  constexpr std::size_t step = std::size_t{1} << 20;
  for (;;) {
    const std::size_t before = text.size();
    if (before > limit) {
      fail(ErrorCode::unsupported, "{}: text over {} bytes is not supported: use a part of it", path.string(),
           limit);
    }
    text.resize(before + step);
    const std::size_t found = source.read(reinterpret_cast<std::uint8_t*>(text.data() + before), step);
    text.resize(before + found);
    if (found < step) break;
  }
  if (source.left_over() != 0) {
    fail(ErrorCode::bad_file, "{}: expected one gzip stream, found {} more bytes after it", path.string(),
         source.left_over());
  }
  return text;
}

}  // namespace bitrift::nn
