#include "h5parallel/read_back.h"

#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "h5parallel/rank_part.h"

namespace bitrift::h5parallel {
namespace {

std::vector<std::uint8_t> values_of(const ckpt::Reader& reader, const SourceTensor& tensor) {
  std::vector<std::uint8_t> values(tensor.meta.bytes());
  if (!values.empty()) reader.read(*tensor.info, values.data(), values.size());
  return values;
}

}  // namespace

std::optional<std::string> difference(const ckpt::Reader& source, const std::filesystem::path& written) {
  const ckpt::Reader copy(written);
  const std::vector<SourceTensor> expected = tensors_of(source);
  const std::vector<SourceTensor> found = tensors_of(copy);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const ckpt::TensorMeta& meta = expected[i].meta;
    if (i >= found.size() || found[i].meta.path != meta.path)
      return fmt::format("'{}' is missing, or another tensor is in its place", meta.path);
    if (found[i].meta != meta) return fmt::format("'{}' has another type or shape", meta.path);
    if (values_of(source, expected[i]) != values_of(copy, found[i]))
      return fmt::format("'{}' has other values", meta.path);
  }
  if (found.size() > expected.size())
    return fmt::format("'{}' is not in the source", found[expected.size()].meta.path);
  return std::nullopt;
}

}  // namespace bitrift::h5parallel
