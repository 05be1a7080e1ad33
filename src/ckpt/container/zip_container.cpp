#include "ckpt/container/zip_container.h"

#include <algorithm>

#include "archive/raw_deflate.h"
#include "archive/zip_rewrite.h"
#include "core/error.h"

namespace bitrift::ckpt {
namespace {

class ZipRewriter final : public Rewriter {
 public:
  ZipRewriter(const archive::BoundedFile& file, const archive::ZipDirectory& directory)
      : rewrite_(file, directory) {}

  void change(std::uint64_t offset, std::span<const std::uint8_t> before,
              std::span<const std::uint8_t> after) override {
    rewrite_.change(offset, before, after);
  }
  void put(std::uint64_t, std::span<const std::uint8_t>, const h5map::Seal&) override {
    fail(ErrorCode::internal, "zip archives have no checksum of that kind");
  }
  void put_chunk(const Values&, const h5map::Chunk& chunk, EncodedChunk encoded) override {
    rewrite_.replace(chunk.offset, std::move(encoded.bytes), encoded.crc32);
  }
  NewBytes finish() override { return rewrite_.finish(); }

 private:
  archive::ZipRewrite rewrite_;
};

}  // namespace

ZipContainer::ZipContainer(std::unique_ptr<const archive::BoundedFile> file, archive::ZipDirectory directory,
                           FileDescriptor fd)
    : file_(std::move(file)), directory_(std::move(directory)), fd_(std::move(fd)) {}

std::shared_ptr<const Member> ZipContainer::member_of(const archive::ZipMember& member) {
  return std::make_shared<Member>(
      Member{*file_, lock_, kept_, file_->name() + ": " + archive::printable(member.name), member.data,
             member.stored_bytes, member.bytes, member.deflated, member.crc32, member.problem});
}

std::vector<std::uint8_t> ZipContainer::beginning(const archive::ZipMember& member,
                                                  std::uint64_t most) const {
  if (!member.problem.empty())
    fail(ErrorCode::unsupported, "{}: {}: {}", file_->name(), archive::printable(member.name),
         member.problem);
  const std::uint64_t wanted = std::min(most, member.bytes);
  if (!member.deflated) return file_->read(member.data, wanted, "a member of the zip archive");
  // Deflated data is never much longer than what it holds.
  const std::uint64_t enough = std::min(member.stored_bytes, wanted + wanted / 16 + 1024);
  const auto packed = file_->read(member.data, enough, "a member of the zip archive");
  try {
    return archive::inflate_beginning(packed, wanted);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}: {}", file_->name(), archive::printable(member.name), error.what());
  }
}

/// Header, data, and data descriptor. The parts of the data that note_values() was told about are left out.
void ZipContainer::add_member(const archive::ZipMember& member, const Runs& values,
                              std::vector<ByteExtent>& extents) const {
  extents.push_back({member.header, member.data, "local header of " + member.name});
  const std::uint64_t end = member.data + member.stored_bytes;
  const auto rest = rests_.find(member.data);
  const std::string structure = rest == rests_.end() ? "member " + member.name : rest->second;
  std::uint64_t at = member.data;
  const auto first = std::lower_bound(values.begin(), values.end(), std::pair(member.data, std::uint64_t{0}));
  for (auto run = first; run != values.end() && run->first < end; ++run) {
    if (run->first > at) extents.push_back({at, run->first, structure});
    at = std::max(at, run->second);
  }
  if (at < end) extents.push_back({at, end, structure});
  if (member.end > end) extents.push_back({end, member.end, "data descriptor of " + member.name});
}

std::vector<ByteExtent> ZipContainer::metadata() const {
  std::vector<ByteExtent> extents;
  Runs values = values_;
  std::sort(values.begin(), values.end());
  std::uint64_t at = 0;
  for (const archive::ZipMember& member : directory_.members()) {
    if (member.header > at) extents.push_back({at, member.header, "unused"});
    add_member(member, values, extents);
    at = member.end;
  }
  const archive::ZipTail& tail = directory_.tail();
  if (tail.central > at) extents.push_back({at, tail.central, "unused"});
  if (tail.central_end > tail.central) {
    extents.push_back({tail.central, tail.central_end, "central directory"});
  }
  extents.push_back({tail.central_end, tail.end, "end of the archive"});
  if (file_->size() > tail.end) extents.push_back({tail.end, file_->size(), "unused"});
  return extents;
}

std::unique_ptr<Rewriter> ZipContainer::rewriter() const {
  return std::make_unique<ZipRewriter>(*file_, directory_);
}

}  // namespace bitrift::ckpt
