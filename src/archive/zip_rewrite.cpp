#include "archive/zip_rewrite.h"

#include <algorithm>
#include <utility>

#include "archive/crc32.h"
#include "core/error.h"

namespace bitrift::archive {

ZipRewrite::ZipRewrite(const BoundedFile& file, const ZipDirectory& directory)
    : file_(file), directory_(directory) {}

/// The number of the member whose data holds a byte; the number of members if there is none.
std::size_t ZipRewrite::member_at(std::uint64_t offset) const {
  const auto& all = directory_.members();
  const auto behind =
      std::partition_point(all.begin(), all.end(), [&](const ZipMember& one) { return one.data <= offset; });
  if (behind == all.begin()) return all.size();
  const auto found = std::prev(behind);
  if (offset - found->data >= found->stored_bytes) return all.size();
  return static_cast<std::size_t>(found - all.begin());
}

/// Whether the CRC-32 of a stored member is that of its data.
bool ZipRewrite::is_crc32_of(const ZipMember& member) const {
  constexpr std::uint64_t piece = std::uint64_t{1} << 20U;
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < member.bytes; at += piece) {
    const std::uint64_t count = std::min(piece, member.bytes - at);
    crc = crc32(file_.read(member.data + at, count, "a member of the zip archive"), crc);
  }
  return crc == member.crc32;
}

/// Writers that compute no sums (torch.save with config.save.compute_crc32 = False) leave 0. If a member's
/// data has the sum 0, the other members decide.
bool ZipRewrite::has_crc32(const ZipMember& member) {
  if (member.crc32 != 0) return true;
  if (!is_crc32_of(member)) return false;
  if (!without_crc32_) {
    const auto& all = directory_.members();
    without_crc32_ = std::all_of(all.begin(), all.end(), [](const auto& one) { return one.crc32 == 0; }) &&
                     std::any_of(all.begin(), all.end(), [this](const ZipMember& one) {
                       return !one.deflated && one.problem.empty() && !is_crc32_of(one);
                     });
  }
  return !*without_crc32_;
}

void ZipRewrite::change(std::uint64_t offset, std::span<const std::uint8_t> difference) {
  const std::size_t i = member_at(offset);
  if (i == directory_.members().size()) return;
  const ZipMember& member = directory_.members()[i];
  if (member.deflated || difference.size() > member.data + member.stored_bytes - offset) return;
  const auto [at, added] = members_.try_emplace(i, NewContents{member.crc32, true, false, {}});
  NewContents& contents = at->second;
  if (added) contents.follows = has_crc32(member);
  if (!contents.follows) return;
  const std::uint64_t behind = member.data + member.stored_bytes - offset - difference.size();
  contents.crc32 = crc32_xor(contents.crc32, difference, behind);
}

void ZipRewrite::change(std::uint64_t offset, std::span<const std::uint8_t> before,
                        std::span<const std::uint8_t> after) {
  difference_.resize(before.size());
  std::ranges::transform(before, after, difference_.begin(),
                         [](std::uint8_t a, std::uint8_t b) { return static_cast<std::uint8_t>(a ^ b); });
  change(offset, difference_);
}

void ZipRewrite::replace(std::uint64_t data, std::vector<std::uint8_t> stored, std::uint32_t crc) {
  const std::size_t i = member_at(data);
  if (i == directory_.members().size() || !directory_.members()[i].deflated) {
    fail(ErrorCode::internal, "{}: no deflated member begins at byte {}", file_.name(), data);
  }
  members_[i] = {crc, true, true, std::move(stored)};
}

void ZipRewrite::put(const ZipField& field, std::uint64_t value) {
  // The largest value of four bytes means that the number is somewhere else.
  if (field.bytes < 8 && value >= (std::uint64_t{1} << (8 * field.bytes)) - (field.bytes == 4 ? 1 : 0)) {
    fail(ErrorCode::unsupported,
         "{}: {} does not fit the {} bytes that the zip archive has for it at byte {}; write it again with "
         "ZIP64 records",
         file_.name(), value, field.bytes, field.offset);
  }
  std::vector<std::uint8_t> bytes(field.bytes);
  for (std::uint8_t& byte : bytes) {
    byte = static_cast<std::uint8_t>(value);
    value >>= 8U;
  }
  changes_[field.offset] = std::move(bytes);
}

void ZipRewrite::put_sizes(const ZipMember& member, const NewContents& contents) {
  for (const ZipFields& said : member.said) {
    if (contents.crc32 != member.crc32) {
      std::vector<std::uint8_t> bytes(4);
      for (unsigned i = 0; i < 4; ++i) bytes[i] = static_cast<std::uint8_t>(contents.crc32 >> (8 * i));
      changes_[said.crc32.offset] = std::move(bytes);
    }
    if (contents.replaced && contents.stored.size() != member.stored_bytes) {
      put(said.stored_bytes, contents.stored.size());
    }
  }
}

/// Writes a member again after the others: header, data and descriptor.
void ZipRewrite::move(const ZipMember& member, const NewContents& contents) {
  const std::uint64_t header = directory_.tail().central + moved_.size();
  const auto append = [&](std::uint64_t first, std::uint64_t bytes) {
    std::vector<std::uint8_t> part = file_.read(first, bytes, "a member of the zip archive");
    // The notes about the old place apply to the new one.
    for (auto one = changes_.lower_bound(first); one != changes_.end() && one->first < first + bytes;) {
      std::copy(one->second.begin(), one->second.end(),
                part.begin() + static_cast<std::ptrdiff_t>(one->first - first));
      one = changes_.erase(one);
    }
    moved_.insert(moved_.end(), part.begin(), part.end());
  };
  append(member.header, member.data - member.header);
  moved_.insert(moved_.end(), contents.stored.begin(), contents.stored.end());
  append(member.data + member.stored_bytes, member.descriptor_bytes());
  put(member.header_field, header);
}

/// The central directory and the records of the archive's end, which follow the moved members.
void ZipRewrite::append_end() {
  const ZipTail& tail = directory_.tail();
  const std::uint64_t shift = moved_.size();
  for (const ZipField& field : tail.central_fields) put(field, tail.central + shift);
  if (tail.end64_field.bytes != 0) put(tail.end64_field, tail.central_end + shift);
  std::vector<std::uint8_t> end =
      file_.read(tail.central, file_.size() - tail.central, "the end of the zip archive");
  for (auto one = changes_.lower_bound(tail.central); one != changes_.end(); one = changes_.erase(one)) {
    std::copy(one->second.begin(), one->second.end(),
              end.begin() + static_cast<std::ptrdiff_t>(one->first - tail.central));
  }
  moved_.insert(moved_.end(), end.begin(), end.end());
  const auto inside = static_cast<std::ptrdiff_t>(file_.size() - tail.central);
  changes_[tail.central].assign(moved_.begin(), moved_.begin() + inside);
  changes_[file_.size()].assign(moved_.begin() + inside, moved_.end());
}

std::map<std::uint64_t, std::vector<std::uint8_t>> ZipRewrite::finish() {
  for (auto& [i, contents] : members_) {
    const ZipMember& member = directory_.members()[i];
    put_sizes(member, contents);
    if (!contents.replaced) continue;
    if (contents.stored.size() > member.stored_bytes) {
      move(member, contents);
      continue;
    }
    // The data descriptor follows the data directly.
    if (member.descriptor_bytes() != 0 && contents.stored.size() < member.stored_bytes) {
      const std::uint64_t first = member.data + member.stored_bytes;
      auto descriptor = file_.read(first, member.descriptor_bytes(), "a data descriptor");
      for (auto one = changes_.lower_bound(first); one != changes_.end() && one->first < member.end;) {
        std::copy(one->second.begin(), one->second.end(),
                  descriptor.begin() + static_cast<std::ptrdiff_t>(one->first - first));
        one = changes_.erase(one);
      }
      contents.stored.insert(contents.stored.end(), descriptor.begin(), descriptor.end());
    }
    changes_[member.data] = std::move(contents.stored);
  }
  if (!moved_.empty()) append_end();
  return std::exchange(changes_, {});
}

}  // namespace bitrift::archive
