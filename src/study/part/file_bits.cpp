#include "study/part/file_bits.h"

#include <algorithm>
#include <utility>

#include "ckpt/reader.h"
#include "core/error.h"
#include "core/permutation.h"
#include "core/philox.h"
#include "study/part/saved_files.h"

namespace bitrift::study {
namespace {

// The same as in python/bitrift/study/formats.py.
bool is_state(const std::string& path) { return !path.starts_with("checksum/") && !path.starts_with('@'); }

void sort_by_place(std::vector<BitExtent>& extents) {
  std::sort(extents.begin(), extents.end(), [](const BitExtent& a, const BitExtent& b) {
    return std::pair(a.file, a.first) < std::pair(b.file, b.first);
  });
}

void check_apart(const std::vector<BitExtent>& sorted) {
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i].file == sorted[i - 1].file && sorted[i].first < sorted[i - 1].end) {
      fail(ErrorCode::bad_file, "{} and {} share byte {}", sorted[i - 1].structure, sorted[i].structure,
           sorted[i].first);
    }
  }
}

// The runs of bytes that store a tensor's values, and those of bitrift's checksums next to them.
struct StoredValues {
  std::vector<BitExtent> payload, checksums;
};

StoredValues stored_values(const ckpt::Reader& reader) {
  StoredValues stored;
  for (const ckpt::TensorInfo& tensor : reader.tensors()) {
    if (!tensor.alias_of.empty() || !tensor.holder.empty()) continue;
    const bool state = is_state(tensor.path);
    for (const auto& run : reader.values(tensor).stored_runs()) {
      if (run.bytes == 0) continue;
      (state ? stored.payload : stored.checksums)
          .push_back(
              {"", run.offset, run.offset + run.bytes, state ? tensor.path : "values of " + tensor.path});
    }
  }
  return stored;
}

}  // namespace

FileBits::FileBits(const std::filesystem::path& path, const std::vector<WrittenExtent>& payload) {
  if (payload.empty()) {
    read(path);
  } else {
    divide(path, payload);
  }
}

void FileBits::read(const std::filesystem::path& path) {
  const ckpt::Reader reader(path);
  StoredValues stored = stored_values(reader);
  std::vector<BitExtent> all = stored.payload;
  all.insert(all.end(), stored.checksums.begin(), stored.checksums.end());
  for (const ckpt::ByteExtent& extent : reader.container().metadata()) {
    if (extent.end > extent.first) all.push_back({"", extent.first, extent.end, extent.structure});
  }
  sort_by_place(all);
  check_apart(all);
  sort_by_place(stored.payload);
  std::uint64_t at = 0;
  auto next = stored.payload.begin();
  for (BitExtent& extent : all) {
    if (extent.first > at) add(BitStratum::metadata, {"", at, extent.first, "unused"});
    at = extent.end;
    const bool payload = next != stored.payload.end() && next->first == extent.first;
    if (payload) ++next;
    add(payload ? BitStratum::payload : BitStratum::metadata, std::move(extent));
  }
  const std::uint64_t size = reader.container().bytes();
  if (at < size) add(BitStratum::metadata, {"", at, size, "unused"});
}

void FileBits::divide(const std::filesystem::path& path, const std::vector<WrittenExtent>& payload) {
  std::vector<BitExtent> values;
  for (const WrittenExtent& one : payload) {
    if (one.end > one.first) values.push_back({one.file, one.first, one.end, one.tensor});
  }
  sort_by_place(values);
  check_apart(values);
  auto next = values.begin();
  for (const auto& [file, place] : saved_files(path)) {
    const std::string structure = file.empty() ? place.filename().string() : file;
    const std::uint64_t size = std::filesystem::file_size(place);
    std::uint64_t at = 0;
    for (; next != values.end() && next->file == file; ++next) {
      if (next->first > at) add(BitStratum::metadata, {file, at, next->first, structure});
      at = next->end;
      add(BitStratum::payload, *next);
    }
    if (at > size) fail(ErrorCode::bad_file, "{}: values of a tensor end beyond it", place.string());
    if (at < size) add(BitStratum::metadata, {file, at, size, structure});
  }
  if (next != values.end()) fail(ErrorCode::bad_file, "{}: no file {}", path.string(), next->file);
}

void FileBits::add(BitStratum stratum, BitExtent extent) {
  auto& ends = ends_[static_cast<std::size_t>(stratum)];
  ends.push_back((ends.empty() ? 0 : ends.back()) + extent.end - extent.first);
  extents_[static_cast<std::size_t>(stratum)].push_back(std::move(extent));
}

std::uint64_t FileBits::bits(BitStratum stratum) const noexcept {
  const auto& ends = ends_[static_cast<std::size_t>(stratum)];
  return ends.empty() ? 0 : 8 * ends.back();
}

std::uint64_t FileBits::bytes() const noexcept {
  return (bits(BitStratum::payload) + bits(BitStratum::metadata)) / 8;
}

BitFault FileBits::locate(BitStratum stratum, std::uint64_t bit) const {
  const auto& ends = ends_[static_cast<std::size_t>(stratum)];
  const auto at =
      static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), bit / 8) - ends.begin());
  const BitExtent& extent = extents(stratum).at(at);
  return {extent.file, extent.end - (ends[at] - bit / 8), static_cast<int>(bit % 8), extent.structure};
}

std::string FileBits::structure_at(const std::string& file, std::uint64_t byte) const {
  for (const auto& extents : extents_) {
    for (const BitExtent& extent : extents) {
      if (extent.file == file && byte >= extent.first && byte < extent.end) return extent.structure;
    }
  }
  return "";
}

std::vector<BitFault> draw_faults(const FileBits& bits, const FileKind& kind, BitStratum stratum,
                                  std::uint64_t seed, std::uint64_t count) {
  const std::uint64_t size = bits.bits(stratum);
  if (size == 0 || count == 0) return {};
  const std::string purpose =
      fmt::format("study.damage/{}/{}/{}", name_of(kind.format), name_of(kind.writer), name_of(stratum));
  const Permutation order(size, derive_key(seed, purpose));
  std::vector<BitFault> faults;
  for (std::uint64_t i = 0; i < std::min(count, size); ++i) faults.push_back(bits.locate(stratum, order(i)));
  return faults;
}

}  // namespace bitrift::study
