#include "dataset/idx.h"

#include <array>
#include <string>

#include "core/error.h"
#include "core/file.h"
#include "dataset/inflate.h"

namespace bitrift::nn {
namespace {

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
         static_cast<std::uint32_t>(bytes[2]) << 8 | static_cast<std::uint32_t>(bytes[3]);
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, int dimensions) {
  const std::string content = read_text(path);
  ByteSource source(path, content);
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
    // Deflate packs at most 1032 to 1: a header that promises more is wrong.
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
    fail(ErrorCode::bad_file, "{}: expected {} bytes of data after the header, found more bytes after them",
         path.string(), size);
  }
  return array;
}

}  // namespace bitrift::nn
