#include "sink/writer.h"

#include <algorithm>
#include <future>
#include <set>

#include <fcntl.h>
#include <unistd.h>

#include "core/crc32c.h"
#include "core/error.h"
#include "core/file.h"
#include "h5/create.h"

namespace bitrift::ckpt {
namespace {

constexpr const char* kNames = "checksum/path";
constexpr const char* kSums = "checksum/crc32c";
// What one write takes: larger ones were slower, with other programs too.
constexpr std::size_t kPiece = std::size_t{1} << 18;
constexpr std::size_t kWriteback = std::size_t{1} << 25;
// A thread takes 20 microseconds to start, a checksum of so many bytes about 100.
constexpr std::size_t kWorthAThread = std::size_t{1} << 20;

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

/// Sorted by path; refuses doubles, paths that are also groups of others, and formats that are not
/// little-endian.
std::vector<TensorMeta> checked(std::vector<TensorMeta> metas) {
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

std::size_t longest_path(const std::vector<TensorMeta>& metas) {
  std::size_t longest = 0;
  for (const TensorMeta& meta : metas) longest = std::max(longest, meta.path.size());
  return longest;
}

/// All datasets of the file in path order: the tensors and the two of the checksums.
std::vector<h5::NewDataset> datasets_of(const std::vector<TensorMeta>& metas) {
  std::vector<h5::NewDataset> all;
  all.reserve(metas.size() + 2);
  for (const TensorMeta& meta : metas) all.push_back({meta.path, meta.format, 0, meta.shape});
  all.push_back({kNames, std::nullopt, longest_path(metas), {metas.size()}});
  all.push_back({kSums, number_format("uint32"), 0, {metas.size()}});
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return all;
}

}  // namespace

struct Writer::State {
  struct Slot {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::size_t index = 0;  // among the tensors, path order
    bool written = false;
  };

  State(std::filesystem::path target, std::vector<TensorMeta> given)
      : metas(checked(std::move(given))), file(std::move(target)) {
    fd = open_file(file.path(), O_RDWR);
    checksums.resize(metas.size());
  }

  void lay_out(const std::map<std::string, std::string>& attributes) {
    const auto datasets = datasets_of(metas);
    const h5::Blueprint blueprint = h5::lay_out(datasets, attributes);
    std::size_t index = 0;
    for (std::size_t i = 0; i < datasets.size(); ++i) {
      const bool is_tensor = datasets[i].path != kNames && datasets[i].path != kSums;
      slots[datasets[i].path] = {blueprint.offsets[i], datasets[i].bytes(), is_tensor ? index++ : 0,
                                 !is_tensor};
    }
    if (::ftruncate(fd.get(), static_cast<off_t>(blueprint.file_bytes)) != 0) {
      fail(ErrorCode::io, "{}: {}", file.target().string(), errno_text(errno));
    }
    write_at(fd, blueprint.head.data(), blueprint.head.size(), 0, file.target());
  }

  // The disk works while memory is still being copied, so that the final sync finds less to do. Only a hint:
  // errors show in that sync.
  void begin_writeback(std::size_t length) {
    unsynced += length;
    if (unsynced < kWriteback) return;
    unsynced = 0;
    (void)::sync_file_range(fd.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
  }

  void write_checksums() {
    const std::size_t width = longest_path(metas);
    std::string names(width * metas.size(), '\0');
    std::vector<std::uint8_t> sums(4 * metas.size());
    const NumberFormat format = number_format("uint32").value();
    for (std::size_t i = 0; i < metas.size(); ++i) {
      names.replace(i * width, metas[i].path.size(), metas[i].path);
      store_pattern(format, checksums[i], sums.data() + 4 * i);
    }
    write_at(fd, names.data(), names.size(), slots.at(kNames).offset, file.target());
    write_at(fd, sums.data(), sums.size(), slots.at(kSums).offset, file.target());
  }

  std::vector<TensorMeta> metas;  // sorted by path
  PendingFile file;
  FileDescriptor fd;
  std::map<std::string, Slot, std::less<>> slots;
  std::vector<std::uint32_t> checksums;
  std::size_t unsynced = 0;  // bytes since the last begin_writeback() that did something
};

Writer::Writer(std::filesystem::path target, std::vector<TensorMeta> metas,
               const std::map<std::string, std::string>& attributes)
    : state_(std::make_unique<State>(std::move(target), std::move(metas))) {
  state_->lay_out(attributes);
}

Writer::~Writer() = default;
Writer::Writer(Writer&&) noexcept = default;

void Writer::tensor(std::string_view path, const void* data, std::size_t bytes) {
  const auto found = state_->slots.find(path);
  const std::string where = state_->file.target().string() + ": " + std::string(path);
  if (found == state_->slots.end()) fail(ErrorCode::internal, "{}: was not announced to the writer", where);
  State::Slot& slot = found->second;
  if (slot.written) fail(ErrorCode::internal, "{}: is written twice", where);
  if (slot.bytes != bytes)
    fail(ErrorCode::internal, "{}: has {} bytes, {} were given", where, slot.bytes, bytes);
  const auto* const content = static_cast<const std::uint8_t*>(data);
  // A large tensor's checksum is taken on a thread while the bytes are written; where no thread can be had,
  // get() takes it afterwards.
  const auto policy =
      bytes >= kWorthAThread ? std::launch::async | std::launch::deferred : std::launch::deferred;
  std::future<std::uint32_t> sum = std::async(policy, [=] { return crc32c(content, bytes); });
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t length = std::min(kPiece, bytes - at);
    write_at(state_->fd, content + at, length, slot.offset + at, state_->file.target());
    state_->begin_writeback(length);
  }
  state_->checksums[slot.index] = sum.get();
  slot.written = true;
}

void Writer::commit() {
  for (const auto& [path, slot] : state_->slots) {
    if (!slot.written)
      fail(ErrorCode::internal, "{}: {}: was never written", state_->file.target().string(), path);
  }
  state_->write_checksums();
  state_->fd.close();
  state_->file.commit();
}

}  // namespace bitrift::ckpt
