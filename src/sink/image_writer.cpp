#include "sink/image_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "archive/crc32.h"
#include "core/crc32c.h"
#include "core/error.h"
#include "core/number/number_format.h"

namespace bitrift::ckpt {
namespace {

std::uint32_t continued(Checksum kind, std::span<const std::uint8_t> bytes, std::uint32_t sum) {
  switch (kind) {
    case Checksum::none:
      return 0;
    case Checksum::crc32c:
      return crc32c(bytes.data(), bytes.size(), sum);
    case Checksum::crc32:
      return archive::crc32(bytes, sum);
  }
  return 0;
}

}  // namespace

ImageWriter::ImageWriter(const Image& image, Sink& sink)
    : image_(image), sink_(sink), sums_(image.tensors.size()) {
  sink_.begin(image_.file_bytes);
}

void ImageWriter::fixed() {
  for (const Image::Piece& piece : image_.pieces) {
    for_each_piece(piece.offset, piece.bytes,
                   [&](std::uint64_t at, std::span<const std::uint8_t> bytes) { sink_.write(at, bytes); });
  }
}

void ImageWriter::tensor(std::string_view path, const void* data, std::size_t bytes) {
  const Image::Tensor* const found = image_.find(path);
  const std::string where = sink_.target().string() + ": " + std::string(path);
  if (found == nullptr) fail(ErrorCode::internal, "{}: was not announced to the writer", where);
  std::optional<std::uint32_t>& sum = sums_[static_cast<std::size_t>(found - image_.tensors.data())];
  if (sum) fail(ErrorCode::internal, "{}: is written twice", where);
  if (found->bytes != bytes)
    fail(ErrorCode::internal, "{}: has {} bytes, {} were given", where, found->bytes, bytes);
  sum = found->checksum_begun;
  // Piece by piece, so that the kernel copies data that the checksum has just read from the processor's
  // cache.
  for_each_piece(found->offset, {static_cast<const std::uint8_t*>(data), bytes},
                 [&](std::uint64_t at, std::span<const std::uint8_t> piece) {
                   sum = continued(image_.checksum, piece, *sum);
                   sink_.write(at, piece);
                 });
}

void ImageWriter::checksums() {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> places;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    if (!sums_[i]) continue;
    for (const std::uint64_t at : image_.tensors[i].checksums_at) places.emplace_back(at, *sums_[i]);
  }
  std::sort(places.begin(), places.end());
  const NumberFormat format = number_format("uint32").value();
  std::vector<std::uint8_t> run;  // consecutive checksums in the file
  std::uint64_t start = 0;
  for (const auto& [at, sum] : places) {
    if (at != start + run.size()) {
      sink_.write(start, run);
      run.clear();
      start = at;
    }
    run.resize(run.size() + 4);
    store_pattern(format, sum, run.data() + run.size() - 4);
  }
  sink_.write(start, run);
}

void ImageWriter::commit() {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    if (!sums_[i])
      fail(ErrorCode::internal, "{}: {}: was never written", sink_.target().string(), image_.tensors[i].path);
  }
  checksums();
  sink_.commit();
}

}  // namespace bitrift::ckpt
