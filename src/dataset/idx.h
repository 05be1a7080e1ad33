// IDX files, the format of MNIST (http://yann.lecun.com/exdb/mnist), plain or gzipped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace bitrift::nn {

/// An array of bytes with a shape.
struct IdxArray {
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;
};

/// Reads an IDX file of unsigned bytes with the given number of dimensions (1 to 4). A file that starts with
/// gzip's magic is inflated. Throws Error(not_found | io), and Error(bad_file) that names the file, what was
/// expected and what was found: another magic, truncated, bytes after the end, a dimension of 0, damaged
/// gzip.
[[nodiscard]] IdxArray read_idx(const std::filesystem::path& path, int dimensions);

}  // namespace bitrift::nn
