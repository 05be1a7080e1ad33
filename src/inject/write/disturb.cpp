#include "inject/write/disturb.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fcntl.h>

#include "core/error.h"
#include "core/file_run.h"

namespace bitrift::inject {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// The bits of a stored element to invert, as bytes.
Bytes inverted_bits(NumberFormat format, ByteOrder order) {
  std::uint64_t mask = 1;
  if (format.kind == NumberKind::floating)
    mask |= sign_mask(format) | std::uint64_t{1} << format.mantissa_bits;
  format.order = order;
  Bytes bytes(format.bytes);
  store_pattern(format, mask, bytes.data());
  return bytes;
}

class Disturber {
 public:
  Disturber(const ckpt::Reader& reader, const std::filesystem::path& copy)
      : reader_(reader),
        from_(reader.files(), O_RDONLY),
        to_(reader.files().in(copy), O_WRONLY),
        rewriter_(reader.container().rewriter()) {}

  void disturb(const std::string& path) {
    const ckpt::TensorInfo* const tensor = reader_.find(path);
    if (tensor == nullptr) fail(ErrorCode::not_found, "{}: has no tensor {}", reader_.path().string(), path);
    if (!tensor->refusal.empty()) {
      fail(ErrorCode::unsupported, "{}: {} cannot be altered: {}", reader_.path().string(), path,
           tensor->refusal);
    }
    const Bytes mask = inverted_bits(*tensor->format, tensor->order);
    if (tensor->offset) return disturb_run(*tensor->offset, tensor->elements(), mask);
    const ckpt::Values& values = reader_.values(*tensor);
    for (std::uint64_t element = 0; element < tensor->elements(); ++element) {
      const auto spot = values.locate(tensor->byte_of(element));
      if (spot.chunk) return disturb_chunks(*tensor, values, mask);
      disturb_run(spot.at, 1, mask);
    }
  }

  void finish() {
    for (const auto& [offset, bytes] : rewriter_->finish()) to_.write(bytes.data(), bytes.size(), offset);
  }

 private:
  /// Elements that follow each other in the file.
  void disturb_run(std::uint64_t offset, std::uint64_t elements, const Bytes& mask) {
    const std::uint64_t most = (std::uint64_t{1} << 20U) / mask.size();
    Bytes before, after;
    for (std::uint64_t done = 0; done < elements;) {
      const std::uint64_t count = std::min(most, elements - done);
      before.resize(count * mask.size());
      const std::uint64_t at = offset + done * mask.size();
      from_.read(before.data(), before.size(), at);
      after = before;
      for (std::size_t i = 0; i < after.size(); ++i) after[i] ^= mask[i % mask.size()];
      to_.write(after.data(), after.size(), at);
      rewriter_->change(at, before, after);
      done += count;
    }
  }

  /// A tensor in a deflated member is the only one there.
  void disturb_chunks(const ckpt::TensorInfo& tensor, const ckpt::Values& values, const Bytes& mask) {
    const auto spot = values.locate(tensor.byte_of(0));
    const std::uint64_t base = spot.at - tensor.byte_of(0);
    rewriter_->put_chunk(values, *spot.chunk,
                         values.recode(*spot.chunk, [&](std::span<std::uint8_t> decoded) {
                           for (std::uint64_t element = 0; element < tensor.elements(); ++element) {
                             std::uint8_t* const at = decoded.data() + base + tensor.byte_of(element);
                             for (std::size_t i = 0; i < mask.size(); ++i) at[i] ^= mask[i];
                           }
                         }));
  }

  const ckpt::Reader& reader_;
  FileRun from_, to_;
  std::unique_ptr<ckpt::Rewriter> rewriter_;
};

}  // namespace

void disturb(const ckpt::Reader& reader, const std::filesystem::path& copy,
             const std::vector<std::string>& tensors) {
  Disturber disturber(reader, copy);
  for (const std::string& tensor : tensors) disturber.disturb(tensor);
  disturber.finish();
}

}  // namespace bitrift::inject
