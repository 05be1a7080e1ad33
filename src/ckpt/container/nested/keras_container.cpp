#include "ckpt/container/nested/keras_container.h"

#include <algorithm>
#include <utility>

#include "archive/zip_rewrite.h"
#include "ckpt/container/nested/packed_file.h"
#include "core/error.h"
#include "core/unnamed_file.h"

namespace bitrift::ckpt {
namespace {

/// The weights as an HDF5 file, and a descriptor that reads it: that of the archive, or of their content.
Hdf5Container weights_of(const archive::BoundedFile& file, const archive::ZipMember& member,
                         const Member* packed, FileDescriptor fd) {
  if (!member.problem.empty())
    fail(ErrorCode::unsupported, "{}: {}: {}", file.name(), member.name, member.problem);
  if (packed == nullptr)
    return {h5map::File(h5map::Source(file.name(), member.data, member.data + member.stored_bytes)),
            std::move(fd)};
  FileDescriptor content = unpacked_file(*packed);
  h5map::Source source(duplicate(content, packed->where), packed->where);
  return {h5map::File(std::move(source)), std::move(content)};
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
    : ZipContainer(std::move(file), std::move(directory), duplicate(fd, "a .keras archive")),
      packed_(weights_member().deflated ? member_of(weights_member()) : nullptr),
      weights_(weights_of(this->file(), weights_member(), packed_.get(), std::move(fd))) {
  if (packed_) note_values(packed_->data, packed_->data + packed_->stored_bytes);
}

std::vector<Block> KerasContainer::packed(std::vector<Block> blocks) {
  if (!packed_) return blocks;
  for (Block& block : blocks) pack_block(block, packed_, weights_, bytes(), "");
  return blocks;
}

std::vector<Block> KerasContainer::blocks() { return packed(weights_.blocks()); }
std::vector<Block> KerasContainer::attribute_blocks() { return packed(weights_.attribute_blocks()); }

std::optional<std::string> KerasContainer::clash(std::uint64_t first, std::uint64_t end) {
  return packed_ ? std::nullopt : weights_.clash(first, end);
}

/// The archive's own bytes and other members, and the structures of the HDF5 file.
std::vector<ByteExtent> KerasContainer::metadata() const {
  if (packed_) return ZipContainer::metadata();
  const archive::ZipMember& weights = weights_member();
  const auto name = std::string(weights_name);
  std::vector<ByteExtent> extents;
  std::uint64_t at = 0;
  const auto add = [&](std::uint64_t end, const std::string& structure) {
    if (end > at) extents.push_back({at, end, structure});
    at = std::max(at, end);
  };
  for (const archive::ZipMember& member : directory().members()) {
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
  const archive::ZipTail& tail = directory().tail();
  add(tail.central, "unused");
  add(tail.central_end, "central directory");
  add(tail.end, "end of the archive");
  add(file().size(), "unused");
  return extents;
}

std::unique_ptr<Rewriter> KerasContainer::rewriter() const {
  if (packed_) return ZipContainer::rewriter();
  const archive::ZipMember& weights = weights_member();
  return std::make_unique<KerasRewriter>(weights_.rewriter(), file(), directory(),
                                         weights.data + weights.stored_bytes);
}

}  // namespace bitrift::ckpt
