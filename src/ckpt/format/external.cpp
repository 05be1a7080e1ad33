#include "ckpt/format/external.h"

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "h5map/structure/source.h"

namespace bitrift::ckpt {
namespace {

std::filesystem::path inside_folder(const std::string& file, const std::string& where,
                                    const std::string& name) {
  const std::filesystem::path path(name);
  const bool leaves = path.empty() || path.is_absolute() ||
                      std::any_of(path.begin(), path.end(), [](const auto& part) { return part == ".."; });
  if (leaves) {
    fail(ErrorCode::unsupported, "{}: its values lie in '{}', which is outside of this file's folder", where,
         name);
  }
  return std::filesystem::path(file).parent_path() / path;
}

}  // namespace

void read_external(const std::string& file, const std::string& where,
                   const std::vector<h5map::ExternalSegment>& segments, std::uint64_t first,
                   std::span<std::uint8_t> out) {
  std::fill(out.begin(), out.end(), std::uint8_t{0});
  std::uint64_t begin = 0;  // of the segment, in the dataset
  for (const h5map::ExternalSegment& segment : segments) {
    const std::uint64_t end =
        segment.bytes > h5map::undefined - begin ? h5map::undefined : begin + segment.bytes;
    const std::uint64_t from = std::max(first, begin);
    const std::uint64_t to = std::min(first + out.size(), end);
    if (from < to) {
      const h5map::Source source(inside_folder(file, where, segment.file));
      const std::uint64_t skip = from - begin;
      if (segment.offset <= source.size() && skip < source.size() - segment.offset) {
        const std::uint64_t there = std::min(to - from, source.size() - segment.offset - skip);
        source.read(segment.offset + skip, out.subspan(from - first, there), "external values");
      }
    }
    begin = end;
  }
}

}  // namespace bitrift::ckpt
