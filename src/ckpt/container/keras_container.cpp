#include "ckpt/container/keras_container.h"

#include <algorithm>
#include <utility>

#include "archive/zip_rewrite.h"
#include "core/error.h"

namespace bitrift::ckpt {
namespace {

h5map::File weights_of(const archive::BoundedFile& file, const archive::ZipDirectory& directory) {
  const archive::ZipMember& member = *directory.find(KerasContainer::weights_name);
  if (!member.problem.empty())
    fail(ErrorCode::unsupported, "{}: {}: {}", file.name(), member.name, member.problem);
  if (member.deflated) {
    fail(ErrorCode::unsupported,
         "{}: {} is compressed, as Keras never does; unpack it from the archive (`unzip`), which bitrift "
         "reads",
         file.name(), member.name);
  }
  return h5map::File(h5map::Source(file.name(), member.data, member.data + member.stored_bytes));
}

/// Tells the archive of everything that changes in the HDF5 file.
class KerasRewriter final : public Rewriter {
 public:
  KerasRewriter(std::unique_ptr<Rewriter> weights, const archive::BoundedFile& file,
                const archive::ZipDirectory& directory, std::uint64_t end)
      : weights_(std::move(weights)), file_(file), archive_(file, directory), end_(end) {}

  void change(std::uint64_t offset, std::span<const std::uint8_t> before,
              std::span<const std::uint8_t> after) override {
    weights_->change(offset, before, after);
    archive_.change(offset, before, after);
  }
  void put(std::uint64_t offset, std::span<const std::uint8_t> bytes, const h5map::Seal& seal) override {
    weights_->put(offset, bytes, seal);
  }
  void put_chunk(const Values& values, const h5map::Chunk& chunk, EncodedChunk encoded) override {
    weights_->put_chunk(values, chunk, std::move(encoded));
  }
  NewBytes finish() override {
    NewBytes all = weights_->finish();
    for (const auto& [offset, bytes] : all) {
      if (offset > end_ || bytes.size() > end_ - offset) {
        fail(ErrorCode::unsupported,
             "{}: a compressed part of {} would become longer, and the archive has no space for it: unpack "
             "it, and "
             "alter it by itself",
             file_.name(), KerasContainer::weights_name);
      }
      archive_.change(offset, file_.read(offset, bytes.size(), "an altered part"), bytes);
    }
    all.merge(archive_.finish());
    return all;
  }

 private:
  std::unique_ptr<Rewriter> weights_;
  const archive::BoundedFile& file_;
  archive::ZipRewrite archive_;
  std::uint64_t end_;
};

}  // namespace

KerasContainer::KerasContainer(std::unique_ptr<const archive::BoundedFile> file,
                               archive::ZipDirectory directory, FileDescriptor fd)
    : file_(std::move(file)),
      directory_(std::move(directory)),
      weights_(weights_of(*file_, directory_), std::move(fd)) {}

/// The archive's own bytes and other members, and the structures of the HDF5 file.
std::vector<ByteExtent> KerasContainer::metadata() const {
  const archive::ZipMember& weights = weights_member();
  const auto name = std::string(weights_name);
  std::vector<ByteExtent> extents;
  std::uint64_t at = 0;
  const auto add = [&](std::uint64_t end, const std::string& structure) {
    if (end > at) extents.push_back({at, end, structure});
    at = std::max(at, end);
  };
  for (const archive::ZipMember& member : directory_.members()) {
    add(member.header, "unused");
    add(member.data, "local header of " + member.name);
    if (&member == &weights) {
      for (ByteExtent& one : weights_.metadata()) {
        if (one.end <= member.data) continue;  // what is before it is not a user block
        one.first = std::max(one.first, member.data);
        one.structure = name + ": " + one.structure;
        extents.push_back(std::move(one));
      }
      at = member.data + member.stored_bytes;
    }
    add(member.data + member.stored_bytes, "member " + member.name);
    add(member.end, "data descriptor of " + member.name);
  }
  const archive::ZipTail& tail = directory_.tail();
  add(tail.central, "unused");
  add(tail.central_end, "central directory");
  add(tail.end, "end of the archive");
  add(file_->size(), "unused");
  return extents;
}

std::unique_ptr<Rewriter> KerasContainer::rewriter() const {
  const archive::ZipMember& weights = weights_member();
  return std::make_unique<KerasRewriter>(weights_.rewriter(), *file_, directory_,
                                         weights.data + weights.stored_bytes);
}

}  // namespace bitrift::ckpt
