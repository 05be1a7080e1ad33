#include "h5parallel/read_back.h"

#include <vector>

#include <fmt/format.h>

#include "h5parallel/rank_part.h"

namespace bitrift::h5parallel {

std::optional<std::string> difference(const std::filesystem::path& source,
                                      const std::filesystem::path& written) {
  const std::vector<TensorPart> expected = read_part(ckpt::Reader(source), 0, 1);
  const std::vector<TensorPart> found = read_part(ckpt::Reader(written), 0, 1);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const ckpt::TensorMeta& meta = expected[i].meta;
    if (i >= found.size() || found[i].meta.path != meta.path)
      return fmt::format("'{}' is missing, or another tensor is there", meta.path);
    if (found[i].meta != meta) return fmt::format("'{}' has another type or shape", meta.path);
    if (found[i].values != expected[i].values) return fmt::format("'{}' has other values", meta.path);
  }
  if (found.size() > expected.size())
    return fmt::format("'{}' is not in the source", found[expected.size()].meta.path);
  return std::nullopt;
}

}  // namespace bitrift::h5parallel
