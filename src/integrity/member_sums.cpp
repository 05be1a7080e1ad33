#include "integrity/member_sums.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fcntl.h>

#include "archive/crc32.h"
#include "archive/raw_deflate.h"
#include "core/error.h"
#include "core/file.h"
#include "core/process/memory.h"
#include "core/process/parallel_for.h"

namespace bitrift::integrity {
namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20U;

/// The CRC-32 of bytes [first, first + bytes) of a file.
std::uint32_t crc32_of(const FileDescriptor& fd, const std::filesystem::path& file, std::uint64_t first,
                       std::uint64_t bytes) {
  thread_local Bytes piece;
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < bytes; at += piece_bytes) {
    piece.resize(std::min(piece_bytes, bytes - at));
    read_at(fd, piece.data(), piece.size(), first + at, file);
    crc = archive::crc32(piece, crc);
  }
  return crc;
}

/// The CRC-32 of what a deflated member holds; nullopt, and the reason, if it cannot be inflated.
std::optional<std::uint32_t> crc32_of_deflated(const FileDescriptor& fd, const std::filesystem::path& file,
                                               std::uint64_t first, const archive::ZipMember& member,
                                               std::string& reason) {
  if (!archive::can_inflate_to(member.stored_bytes, member.bytes)) {
    reason = fmt::format("{} deflated bytes cannot hold {}", member.stored_bytes, member.bytes);
    return std::nullopt;
  }
  return ckpt::with_memory(member.stored_bytes + member.bytes, file.string() + ": " + member.name,
                           [&]() -> std::optional<std::uint32_t> {
                             Bytes packed(member.stored_bytes);
                             read_at(fd, packed.data(), packed.size(), first + member.data, file);
                             try {
                               return archive::crc32(archive::inflate_raw(packed, member.bytes));
                             } catch (const Error& error) {
                               reason = error.what();
                               return std::nullopt;
                             }
                           });
}

SummedPart part_of(const archive::ZipMember& member) {
  SummedPart part;
  part.kind = SumKind::crc32;
  part.name = "member " + member.name;
  part.place = MemberPlace{member.data, member.stored_bytes, member.deflated, member.bytes};
  part.expected = member.crc32;
  return part;
}

/// A slice of a stored member, so that a large one keeps all cores busy.
struct Slice {
  std::size_t member = 0;
  std::uint64_t first = 0, bytes = 0;  // within the member's data
  std::uint32_t crc = 0;
};

std::vector<Slice> slices_of(const std::vector<archive::ZipMember>& members) {
  constexpr std::uint64_t most = std::uint64_t{16} << 20U;
  std::vector<Slice> slices;
  for (std::size_t i = 0; i < members.size(); ++i) {
    std::uint64_t at = 0;
    do {
      const std::uint64_t bytes =
          members[i].deflated ? members[i].stored_bytes : std::min(most, members[i].stored_bytes - at);
      slices.push_back({i, at, bytes, 0});
      at += bytes;
    } while (at < members[i].stored_bytes);
  }
  return slices;
}

/// Writers that compute no sums leave 0 (see archive::ZipRewrite).
bool was_computed(const SummedPart& part) { return part.expected != 0 || part.found == 0; }

}  // namespace

std::vector<SummedPart> check_members(const archive::ZipDirectory& directory,
                                      const std::filesystem::path& file, std::uint64_t first) {
  const FileDescriptor fd = open_file(file, O_RDONLY);
  const auto& members = directory.members();
  std::vector<Slice> slices = slices_of(members);
  std::vector<std::string> reasons(members.size());
  parallel_for(slices.size(), [&](std::size_t i) {
    Slice& slice = slices[i];
    const archive::ZipMember& member = members[slice.member];
    if (!member.problem.empty()) return;
    if (!member.deflated) {
      slice.crc = crc32_of(fd, file, first + member.data + slice.first, slice.bytes);
    } else {
      slice.crc = crc32_of_deflated(fd, file, first, member, reasons[slice.member]).value_or(0);
    }
  });
  std::vector<SummedPart> parts(members.size());
  std::transform(members.begin(), members.end(), parts.begin(), part_of);
  for (const Slice& slice : slices) {
    SummedPart& part = parts[slice.member];
    part.found = archive::crc32_join(part.found, slice.crc, slice.bytes);
  }
  std::vector<SummedPart> checked;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!members[i].problem.empty()) continue;
    parts[i].damage = reasons[i];
    if (reasons[i].empty() && !was_computed(parts[i])) continue;
    if (reasons[i].empty() && parts[i].found != parts[i].expected) {
      parts[i].damage =
          fmt::format("its CRC-32 is {:08x}, not {:08x} as stored", parts[i].found, parts[i].expected);
    }
    checked.push_back(std::move(parts[i]));
  }
  return checked;
}

}  // namespace bitrift::integrity
