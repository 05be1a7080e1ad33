#include "ckpt/container/nested/nested_container.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "archive/zip_rewrite.h"
#include "ckpt/container/array_block.h"
#include "ckpt/container/nested/packed_file.h"
#include "core/error.h"

namespace bitrift::ckpt {
namespace {

bool has_name_of_file(const archive::ZipMember& member) {
  constexpr std::array<std::string_view, 4> ends = {".pth", ".pt", ".ckpt", ".bin"};
  return std::ranges::any_of(ends, [&](std::string_view end) { return member.name.ends_with(end); });
}

std::unique_ptr<TorchContainer> open_member(const Member& member) {
  if (!member.problem.empty()) fail(ErrorCode::unsupported, "{}: {}", member.where, member.problem);
  auto part = std::make_unique<const archive::BoundedFile>(
      member.deflated ? archive::BoundedFile(unpacked_file(member), member.where)
                      : member.file.part(member.data, member.stored_bytes, member.where));
  constexpr std::array<std::uint8_t, 4> zip = {'P', 'K', 3, 4};
  const bool is_zip =
      part->size() > zip.size() && std::ranges::equal(part->read(0, zip.size(), "the first bytes"), zip);
  if (is_zip) {
    archive::ZipDirectory directory(*part);
    if (!TorchContainer::root_of(directory).empty())
      return std::make_unique<TorchContainer>(std::move(part), std::move(directory), FileDescriptor());
  }
  fail(ErrorCode::unsupported,
       "{}: is not a file that torch.save of PyTorch 1.6 or later wrote; unpack the archive (`unzip`), and "
       "name a file",
       member.where);
}

}  // namespace

/// Passes each alteration on to its file, and tells the outer archive of everything that changes there.
class NestedRewriter final : public Rewriter {
 public:
  explicit NestedRewriter(const NestedContainer& container)
      : container_(container),
        archive_(container.file(), container.directory()),
        files_(container.parts_.size()) {}

  void change(std::uint64_t offset, std::span<const std::uint8_t> before,
              std::span<const std::uint8_t> after) override {
    auto next = std::ranges::upper_bound(container_.parts_, offset, {}, &NestedContainer::Part::base);
    if (next == container_.parts_.begin()) fail(ErrorCode::internal, "byte {} is in no file", offset);
    const auto part = std::prev(next);
    auto& file = files_[static_cast<std::size_t>(part - container_.parts_.begin())];
    if (!file) file = part->file->rewriter();
    file->change(offset - part->base, before, after);
    archive_.change(offset, before, after);
  }
  void put(std::uint64_t, std::span<const std::uint8_t>, const h5map::Seal&) override {
    fail(ErrorCode::internal, "zip archives have no checksum of that kind");
  }
  /// A deflated file.
  void put_chunk(const Values&, const h5map::Chunk& chunk, EncodedChunk encoded) override {
    archive_.replace(chunk.offset, std::move(encoded.bytes), encoded.crc32);
  }
  NewBytes finish() override {
    NewBytes all;
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (!files_[i]) continue;
      for (auto& [within, bytes] : files_[i]->finish()) {
        const std::uint64_t offset = container_.parts_[i].base + within;
        archive_.change(offset, container_.file().read(offset, bytes.size(), "an altered part"), bytes);
        all.emplace(offset, std::move(bytes));
      }
    }
    all.merge(archive_.finish());
    return all;
  }

 private:
  const NestedContainer& container_;
  archive::ZipRewrite archive_;
  std::vector<std::unique_ptr<Rewriter>> files_;  // of each part, when it is needed
};

bool NestedContainer::holds_files(const archive::ZipDirectory& directory) {
  return std::ranges::any_of(directory.members(), has_name_of_file);
}

NestedContainer::NestedContainer(std::unique_ptr<const archive::BoundedFile> file,
                                 archive::ZipDirectory directory, FileDescriptor fd)
    : ZipContainer(std::move(file), std::move(directory), std::move(fd)) {
  std::map<std::string, int> stems;
  const auto stem_of = [](const std::string& name) { return name.substr(0, name.rfind('.')); };
  for (const archive::ZipMember& member : this->directory().members()) {
    if (has_name_of_file(member)) ++stems[stem_of(member.name)];
  }
  std::uint64_t next = bytes();  // of deflated files, as if they were stored after the archive
  for (const archive::ZipMember& one : this->directory().members()) {
    if (!has_name_of_file(one)) continue;
    const std::string stem = stem_of(one.name);
    const auto member = member_of(one);
    parts_.push_back({member, open_member(*member), one.data, (stems.at(stem) == 1 ? stem : one.name) + '/'});
    if (one.deflated) parts_.back().base = std::exchange(next, next + one.bytes);
  }
  std::ranges::sort(parts_, {}, &Part::base);
}

std::vector<Block> NestedContainer::blocks() {
  std::vector<Block> all;
  for (const Part& part : parts_) {
    for (Block& block : part.file->blocks()) {
      if (part.member->deflated) {
        pack_block(block, part.member, *part.file, part.base, part.prefix);
      } else {
        move_block(block, part.base, part.prefix, "");
      }
      all.push_back(std::move(block));
    }
    note_values_of(part);
  }
  std::ranges::stable_sort(all, {}, &Block::path);
  return all;
}

void NestedContainer::note_values_of(const Part& part) {
  if (part.member->deflated)
    return note_values(part.member->data, part.member->data + part.member->stored_bytes);
  std::uint64_t at = 0;
  for (const ByteExtent& extent : part.file->metadata()) {
    if (extent.first > at) note_values(part.base + at, part.base + extent.first);
    at = std::max(at, extent.end);
  }
}

std::vector<std::string> NestedContainer::written_order() const {
  std::vector<std::string> order;
  for (const Part& part : parts_) {
    for (const std::string& path : part.file->written_order()) order.push_back(part.prefix + path);
  }
  return order;
}

std::unique_ptr<Rewriter> NestedContainer::rewriter() const {
  return std::make_unique<NestedRewriter>(*this);
}

}  // namespace bitrift::ckpt
