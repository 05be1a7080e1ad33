#include "integrity/seal/make_seal.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <fcntl.h>

#include "ckpt/set/checkpoint_files.h"
#include "ckpt/set/file_set.h"
#include "core/digest.h"
#include "core/error.h"
#include "core/process/parallel_for.h"
#include "integrity/seal/erasure_code.h"

namespace bitrift::integrity {
namespace {

/// 200 data rows, as long as they and the parity rows are 255 at most.
SealShape shape_for(std::uint64_t bytes, double percent) {
  constexpr double usual = 200;
  SealShape shape;
  shape.bytes = bytes;
  if (percent < 100 / usual) {
    shape.data_rows = static_cast<unsigned>(std::min(254.0, std::round(100 / percent)));
    shape.parity_rows = 1;
    return shape;
  }
  const double rows = std::min(usual, std::floor(ErasureCode::most_rows / (1 + percent / 100)));
  shape.data_rows = static_cast<unsigned>(rows);
  shape.parity_rows = static_cast<unsigned>(std::ceil(rows * percent / 100 - 1e-9));
  return shape;
}

SealHead head_for(const std::filesystem::path& checkpoint, double percent) {
  SealHead head;
  const auto root = ckpt::root_of_set(checkpoint);
  head.files.root = root;
  std::error_code error;
  std::uint64_t bytes = 0;
  if (std::filesystem::is_directory(root, error)) {
    for (const auto& file : ckpt::files_of(root)) {
      const std::uint64_t size = std::filesystem::file_size(file, error);
      if (error) fail(ErrorCode::io, "{}: {}", file.string(), error.message());
      head.files.add(file.lexically_relative(root).string(), size);
    }
    bytes = head.files.several() ? head.files.parts.back().end() : 0;
  } else {
    bytes = size_of(open_file(root, O_RDONLY), root);
  }
  if (bytes == 0) fail(ErrorCode::bad_input, "{}: has no bytes to seal", checkpoint.string());
  head.shape = shape_for(bytes, percent);
  return head;
}

/// Digests and parity of neighbouring stripes.
class StripeSealer {
 public:
  StripeSealer(const TolerantFiles& files, const SealShape& shape, const SealWriter& writer,
               std::vector<std::uint64_t>& digests)
      : files_(files),
        shape_(shape),
        code_(shape.data_rows, all(shape.parity_rows)),
        writer_(writer),
        digests_(digests) {}

  void seal(std::uint64_t first, std::uint64_t count) const {
    const std::uint64_t bytes = count * seal_block_bytes;
    std::vector<std::uint8_t> piece(bytes), sums(shape_.parity_rows * bytes);
    std::vector<std::uint8_t*> rows;
    for (unsigned row = 0; row < shape_.parity_rows; ++row) rows.push_back(sums.data() + row * bytes);
    for (unsigned row = 0; row < shape_.data_rows && shape_.block(row, first) < shape_.blocks(); ++row) {
      const std::uint64_t block = shape_.block(row, first);
      files_.read(piece.data(), bytes, block * seal_block_bytes);
      const std::uint64_t there = std::min(count, shape_.blocks() - block);
      digest(piece.data(), block, block, there);
      code_.add(row, piece.data(), bytes, rows);
    }
    for (unsigned row = 0; row < shape_.parity_rows; ++row) {
      const std::uint64_t number = shape_.block(row, first);
      digest(rows[row], shape_.blocks() + number, shape_.blocks() + number, count);
      writer_.write_parity(row, first, count, rows[row]);
    }
  }

 private:
  static std::vector<unsigned> all(unsigned count) {
    std::vector<unsigned> rows(count);
    std::iota(rows.begin(), rows.end(), 0U);
    return rows;
  }
  void digest(const std::uint8_t* data, std::uint64_t index, std::uint64_t number,
              std::uint64_t count) const {
    for (std::uint64_t i = 0; i < count; ++i)
      digests_[index + i] = block_digest(data + i * seal_block_bytes, seal_block_bytes, number + i);
  }

  const TolerantFiles& files_;
  SealShape shape_;
  ErasureCode code_;
  const SealWriter& writer_;
  std::vector<std::uint64_t>& digests_;
};

}  // namespace

std::filesystem::path seal_path(const std::filesystem::path& checkpoint) {
  auto root = ckpt::root_of_set(checkpoint);
  std::error_code none;
  if (std::filesystem::is_directory(root, none)) root = std::filesystem::canonical(root);
  return root.string() + ".seal";
}

MadeSeal make_seal(const std::filesystem::path& checkpoint, const SealOptions& options) {
  if (!(options.percent >= least_percent && options.percent <= 100)) {
    fail(ErrorCode::bad_input, "parity of {} % is out of range: give {} to 100", options.percent,
         least_percent);
  }
  MadeSeal made{seal_path(checkpoint), 0, {}};
  if (!options.replace && std::filesystem::exists(made.file)) {
    fail(ErrorCode::bad_input,
         "{}: exists already; `bitrift verify {}` compares with it, and --force replaces it",
         made.file.string(), checkpoint.string());
  }
  made.head = head_for(checkpoint, options.percent);
  const SealShape& shape = made.head.shape;
  const TolerantFiles files(made.head.files, shape.bytes);
  const std::string stamp = files.stamp();
  PendingFile pending(made.file);
  const SealWriter writer(pending.path(), made.head);
  std::vector<std::uint64_t> digests(shape.blocks() + shape.parity_blocks());
  const StripeSealer sealer(files, shape, writer, digests);
  // Sums and one piece of about 512 KiB together, which a core's cache holds.
  const std::uint64_t width = std::max<std::uint64_t>(128 / (shape.parity_rows + 1), 1);
  parallel_for((shape.stripes() + width - 1) / width, [&](std::size_t i) {
    const std::uint64_t first = i * width;
    sealer.seal(first, std::min(width, shape.stripes() - first));
  });
  writer.finish(digests);
  const SealHead now = head_for(checkpoint, options.percent);
  if (files.stamp() != stamp || now.shape.bytes != shape.bytes) {
    fail(ErrorCode::conflict, "{}: was changed while it was sealed; no seal was written, try again",
         checkpoint.string());
  }
  made.bytes = std::filesystem::file_size(pending.path());
  pending.commit();
  return made;
}

}  // namespace bitrift::integrity
