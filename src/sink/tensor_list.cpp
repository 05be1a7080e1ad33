#include "sink/tensor_list.h"

#include <algorithm>
#include <set>
#include <string>

#include "core/error.h"

namespace bitrift::ckpt {
namespace {

void check_path(const std::string& path) {
  std::size_t start = 0;
  bool good = path.find('\0') == std::string::npos && !path.starts_with("checksum/");
  while (good && start <= path.size()) {
    const std::size_t slash = std::min(path.find('/', start), path.size());
    const std::string name = path.substr(start, slash - start);
    good = !name.empty() && name != "." && name != "..";
    start = slash + 1;
  }
  if (!good) fail(ErrorCode::bad_input, "\"{}\" cannot be the path of a tensor in a checkpoint", path);
}

}  // namespace

std::vector<TensorMeta> checked_tensors(std::vector<TensorMeta> metas) {
  if (metas.empty()) fail(ErrorCode::bad_input, "a checkpoint needs at least one tensor");
  std::sort(metas.begin(), metas.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  std::set<std::string> groups;
  for (const TensorMeta& meta : metas) {
    check_path(meta.path);
    for (std::size_t slash = meta.path.find('/'); slash != std::string::npos;
         slash = meta.path.find('/', slash + 1)) {
      groups.insert(meta.path.substr(0, slash));
    }
    if (meta.format.order != ByteOrder::little) {
      fail(ErrorCode::bad_input, "{}: tensors are stored little-endian", meta.path);
    }
  }
  for (std::size_t i = 0; i < metas.size(); ++i) {
    const std::string& path = metas[i].path;
    if (groups.contains(path) || path == "checksum") {
      fail(ErrorCode::bad_input, "{}: is both a tensor and a group", path);
    }
    if (i > 0 && metas[i - 1].path == path) fail(ErrorCode::bad_input, "{}: is given twice", path);
  }
  return metas;
}

}  // namespace bitrift::ckpt
