#include "ckpt/format/member_values.h"

#include <cstring>
#include <utility>

#include "archive/crc32.h"
#include "archive/raw_deflate.h"
#include "core/error.h"
#include "core/process/memory.h"

namespace bitrift::ckpt {

namespace {

using Bytes = std::vector<std::uint8_t>;

/// Reads a deflated member, and calls with its stored bytes and their content. `copies`: the memory for that,
/// in units of its decoded size.
template <typename Use>
auto unpack(const Member& member, std::uint64_t copies, const Use& use) {
  // An impossible claim is damage, however much memory there is.
  if (!archive::can_inflate_to(member.stored_bytes, member.bytes)) {
    fail(ErrorCode::bad_file, "{}: {} deflated bytes cannot hold {}", member.where, member.stored_bytes,
         member.bytes);
  }
  return with_memory(member.stored_bytes + copies * member.bytes, member.where, [&] {
    const Bytes packed = member.file.read(member.data, member.stored_bytes, "a deflated member");
    Bytes values;
    try {
      values = archive::inflate_raw(packed, member.bytes);
      if (archive::crc32(values) != member.crc32) fail(ErrorCode::bad_file, "its CRC-32 does not match");
    } catch (const Error& error) {
      fail(error.code(), "{}: {}", member.where, error.what());
    }
    return use(packed, std::move(values));
  });
}

}  // namespace

Bytes unpacked(const Member& member) {
  return unpack(member, 1, [](const Bytes&, Bytes values) { return values; });
}

EncodedChunk repacked(const Member& member, const h5map::ValueChange& change) {
  // The old values, whose memory the values read back then use, the new values, and two stored forms.
  constexpr std::uint64_t copies = 4;
  return unpack(member, copies, [&](const Bytes& packed, Bytes before) {
    Bytes values = before;
    change(values);
    return EncodedChunk{archive::deflate_raw_again(packed, std::move(before), values), 0,
                        archive::crc32(values)};
  });
}

MemberValues::MemberValues(std::shared_ptr<const Member> member, std::uint64_t first, std::uint64_t bytes)
    : member_(std::move(member)), first_(first), bytes_(bytes) {}

void MemberValues::read(std::uint64_t first, std::span<std::uint8_t> out) const {
  const Member& member = *member_;
  if (!member.problem.empty()) fail(ErrorCode::unsupported, "{}: {}", member.where, member.problem);
  if (first > bytes_ || out.size() > bytes_ - first) {
    fail(ErrorCode::internal, "{}: bytes {} + {} of {} are not there to be read", member.where, first,
         out.size(), bytes_);
  }
  if (out.empty()) return;
  if (!member.deflated) return member.file.read(member.data + first_ + first, out, "a tensor");
  const std::lock_guard guard(member.lock);
  const auto& values = member.kept.get(&member, 0, member.bytes, [&] { return unpacked(member); });
  std::memcpy(out.data(), values.data() + first_ + first, out.size());
}

Values::Spot MemberValues::locate(std::uint64_t byte) const {
  const Member& member = *member_;
  if (!member.deflated) return {member.data + first_ + byte, bytes_ - byte, std::nullopt, std::nullopt};
  h5map::Chunk chunk;
  chunk.offset = member.data;
  chunk.bytes = member.stored_bytes;
  chunk.filtered = true;
  return {first_ + byte, bytes_ - byte, chunk, std::nullopt};
}

std::uint64_t MemberValues::chunk_bytes() const noexcept { return member_->deflated ? member_->bytes : 0; }

std::vector<std::uint8_t> MemberValues::decode(const h5map::Chunk&) const { return unpacked(*member_); }

EncodedChunk MemberValues::recode(const h5map::Chunk&, const h5map::ValueChange& change) const {
  return repacked(*member_, change);
}

std::vector<Values::StoredRun> MemberValues::stored_runs() const {
  if (!member_->problem.empty() || bytes_ == 0) return {};
  if (member_->deflated) return {{member_->data, member_->stored_bytes}};
  return {{member_->data + first_, bytes_}};
}

}  // namespace bitrift::ckpt
