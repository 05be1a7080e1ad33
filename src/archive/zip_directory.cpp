#include "archive/zip_directory.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/byte_cursor.h"
#include "core/error.h"

namespace bitrift::archive {
namespace {

constexpr std::uint32_t local_mark = 0x04034b50, central_mark = 0x02014b50, end_mark = 0x06054b50;
constexpr std::uint32_t end64_mark = 0x06064b50, locator_mark = 0x07064b50, descriptor_mark = 0x08074b50;
constexpr std::uint64_t end_bytes = 22, end64_bytes = 56, locator_bytes = 20, central_bytes = 46,
                        local_bytes = 30;
constexpr std::uint64_t most_comment = 0xffff;
constexpr std::uint64_t most_central = std::uint64_t{64} << 20U;
constexpr std::uint32_t in_zip64 = 0xffffffff;
constexpr unsigned encrypted = 1U, has_descriptor = 8U, hidden = 0x2000U;

/// The ZIP64 extra field of a header: 8-byte values of the fields that the header leaves open, in order.
class Zip64Extra {
 public:
  /// `at`: the place of the extra fields in the file.
  Zip64Extra(std::span<const std::uint8_t> extra, std::uint64_t at) {
    // Extra fields may be padded with other bytes.
    for (std::uint64_t i = 0; i + 4 <= extra.size();) {
      const auto id = static_cast<unsigned>(extra[i] | extra[i + 1] << 8U);
      const auto size = static_cast<std::uint64_t>(extra[i + 2] | extra[i + 3] << 8U);
      if (size > extra.size() - i - 4) return;
      if (id == 1) {
        values_ = extra.subspan(i + 4, size);
        at_ = at + i + 4;
        return;
      }
      i += 4 + size;
    }
  }
  /// Replaces a value that says that it is here. False when it is not.
  bool resolve(std::uint64_t& value, ZipField& field) {
    if (value != in_zip64) return true;
    if (values_.size() - used_ < 8) return values_.empty();  // without the extra field it is a plain number
    value = 0;
    for (unsigned i = 8; i-- > 0;) value = value << 8U | values_[used_ + i];
    field = {at_ + used_, 8};
    used_ += 8;
    return true;
  }

 private:
  std::span<const std::uint8_t> values_;
  std::uint64_t at_ = 0, used_ = 0;
};

std::uint64_t number(std::span<const std::uint8_t> bytes, std::uint64_t at, unsigned count) {
  std::uint64_t value = 0;
  for (unsigned i = count; i-- > 0;) value = value << 8U | bytes[at + i];
  return value;
}

/// What the end of an archive says about its central directory.
struct End {
  std::uint64_t entries = 0, central_size = 0, begins = 0;  // begins: the first of the records of the end
  ZipTail tail;
};

class EndReader {
 public:
  explicit EndReader(const BoundedFile& file) : file_(file) {}

  End read() {
    const std::uint64_t at = find();
    const auto end = file_.read(at, end_bytes, "the end of the zip archive");
    End found;
    found.begins = at;
    found.tail.end = at + end_bytes + number(end, 20, 2);
    found.entries = number(end, 10, 2);
    found.central_size = number(end, 12, 4);
    found.tail.central = number(end, 16, 4);
    if (number(end, 4, 2) != number(end, 6, 2) || number(end, 8, 2) != found.entries) several_disks();
    found.tail.central_fields.push_back({at + 16, 4});
    if (at >= locator_bytes) read_zip64(at - locator_bytes, found);
    if (found.tail.central > found.begins || found.central_size != found.begins - found.tail.central) {
      fail(ErrorCode::bad_file,
           "{}: the central directory of the zip archive should be {} bytes at byte {}, but the archive's "
           "end begins at byte {}",
           file_.name(), found.central_size, found.tail.central, found.begins);
    }
    found.tail.central_end = found.begins;
    if (found.entries > found.central_size / central_bytes || found.central_size > most_central) {
      fail(ErrorCode::bad_file, "{}: the central directory of the zip archive has {} bytes for {} members",
           file_.name(), found.central_size, found.entries);
    }
    return found;
  }

 private:
  [[noreturn]] void several_disks() const {
    fail(ErrorCode::unsupported, "{}: is one of several disks of a zip archive", file_.name());
  }

  /// The last record whose comment fits. Python's zipfile and PyTorch take the last one too.
  [[nodiscard]] std::uint64_t find() const {
    const std::uint64_t size = file_.size();
    const std::uint64_t first = size - std::min(size, end_bytes + most_comment);
    const auto bytes = file_.read(first, size - first, "the end of the zip archive");
    for (std::uint64_t i = bytes.size() < end_bytes ? 0 : bytes.size() - end_bytes + 1; i-- > 0;) {
      if (number(bytes, i, 4) != end_mark) continue;
      if (number(bytes, i + 20, 2) <= bytes.size() - i - end_bytes) return first + i;
    }
    fail(ErrorCode::bad_file, "{}: the zip archive has no end: it is truncated or damaged", file_.name());
  }

  void read_zip64(std::uint64_t at, End& found) const {
    const auto locator = file_.read(at, locator_bytes, "the ZIP64 locator");
    if (number(locator, 0, 4) != locator_mark) return;
    const std::uint64_t record = number(locator, 8, 8);
    if (number(locator, 4, 4) != 0 || number(locator, 16, 4) > 1) several_disks();
    if (at < end64_bytes || record > at - end64_bytes) {
      fail(ErrorCode::bad_file, "{}: the ZIP64 locator points to byte {}, where no record can be",
           file_.name(), record);
    }
    const auto end = file_.read(record, end64_bytes, "the ZIP64 record");
    if (number(end, 0, 4) != end64_mark || number(end, 4, 8) != at - record - 12) {
      fail(ErrorCode::bad_file, "{}: the ZIP64 locator points to byte {}, where no record of that size is",
           file_.name(), record);
    }
    const auto agree = [&](std::uint64_t narrow, unsigned bytes, std::uint64_t wide) {
      return narrow == (~std::uint64_t{0} >> (64 - 8 * bytes)) || narrow == wide;
    };
    const std::uint64_t entries = number(end, 32, 8), size = number(end, 40, 8), central = number(end, 48, 8);
    if (number(end, 24, 8) != entries || number(end, 16, 4) != number(end, 20, 4)) several_disks();
    if (!agree(found.entries, 2, entries) || !agree(found.central_size, 4, size) ||
        !agree(found.tail.central, 4, central)) {
      fail(ErrorCode::bad_file, "{}: the two ends of the zip archive contradict each other", file_.name());
    }
    if (found.tail.central == in_zip64) found.tail.central_fields.clear();
    found.entries = entries;
    found.central_size = size;
    found.tail.central = central;
    found.tail.central_fields.push_back({record + 48, 8});
    found.tail.end64_field = {at + 8, 8};
    found.begins = record;
  }

  const BoundedFile& file_;
};

/// One member, first as the central directory describes it, then as its local header confirms it.
class MemberReader {
 public:
  MemberReader(const BoundedFile& file, const ZipTail& tail) : file_(file), tail_(tail) {}

  ZipMember read(ByteCursor& central) {
    ZipMember member;
    ZipFields said;
    const std::uint64_t at = tail_.central + central.position();
    const auto fixed = central.take(central_bytes);
    if (number(fixed, 0, 4) != central_mark) {
      fail(ErrorCode::bad_file, "{}: byte {} begins no entry of the central directory", file_.name(), at);
    }
    const auto flags = static_cast<unsigned>(number(fixed, 8, 2));
    method_ = static_cast<unsigned>(number(fixed, 10, 2));
    member.crc32 = static_cast<std::uint32_t>(number(fixed, 16, 4));
    said.crc32 = {at + 16, 4};
    member.stored_bytes = number(fixed, 20, 4);
    said.stored_bytes = {at + 20, 4};
    member.bytes = number(fixed, 24, 4);
    const auto name = central.take(number(fixed, 28, 2));
    member.name.assign(name.begin(), name.end());
    const std::uint64_t extra_at = tail_.central + central.position();
    Zip64Extra extra(central.take(number(fixed, 30, 2)), extra_at);
    central.skip(number(fixed, 32, 2));
    ZipField unused;
    member.header = number(fixed, 42, 4);
    member.header_field = {at + 42, 4};
    if (!extra.resolve(member.bytes, unused) || !extra.resolve(member.stored_bytes, said.stored_bytes) ||
        !extra.resolve(member.header, member.header_field)) {
      damaged(member, "its ZIP64 extra field is too short");
    }
    if (number(fixed, 34, 2) != 0 && number(fixed, 34, 2) != 0xffff) {
      fail(ErrorCode::unsupported, "{}: {} is on another disk of the zip archive", file_.name(),
           printable(member.name));
    }
    if ((flags & (encrypted | hidden)) != 0) {
      fail(ErrorCode::unsupported, "{}: {} is encrypted", file_.name(), printable(member.name));
    }
    check_name(member);
    read_local(member, flags);
    member.said.push_back(said);
    return member;
  }

 private:
  [[noreturn]] void damaged(const ZipMember& member, const std::string& what) const {
    fail(ErrorCode::bad_file, "{}: member {} of the zip archive: {}", file_.name(), printable(member.name),
         what);
  }

  void check_name(const ZipMember& member) const {
    if (member.name.empty() || member.name.find('\0') != std::string::npos) {
      damaged(member, "it has no proper name");
    }
  }

  void read_local(ZipMember& member, unsigned flags) const {
    if (member.header > tail_.central || local_bytes > tail_.central - member.header) {
      damaged(member, fmt::format("its header at byte {} lies outside of the members", member.header));
    }
    const auto fixed = file_.read(member.header, local_bytes, "a local header");
    if (number(fixed, 0, 4) != local_mark) {
      damaged(member, fmt::format("byte {} begins no local header", member.header));
    }
    const std::uint64_t name_bytes = number(fixed, 26, 2), extra_bytes = number(fixed, 28, 2);
    const auto rest =
        file_.read(member.header + local_bytes, name_bytes + extra_bytes, "the name of a local header");
    if (!std::equal(member.name.begin(), member.name.end(), rest.begin(),
                    rest.begin() + static_cast<std::ptrdiff_t>(name_bytes),
                    [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; })) {
      damaged(member, "its local header has another name");
    }
    if (number(fixed, 6, 2) != flags || number(fixed, 8, 2) != method_) {
      damaged(member, "its local header and the central directory contradict each other");
    }
    member.data = member.header + local_bytes + name_bytes + extra_bytes;
    if (member.data > tail_.central || member.stored_bytes > tail_.central - member.data) {
      damaged(member, fmt::format("its {} bytes at byte {} lie outside of the members", member.stored_bytes,
                                  member.data));
    }
    member.end = member.data + member.stored_bytes;
    member.deflated = method_ == 8;
    if (method_ != 0 && !member.deflated) {
      member.problem =
          fmt::format("it is compressed by method {} of zip; only stored and deflated are read", method_);
    } else if (method_ == 0 && member.bytes != member.stored_bytes) {
      damaged(member, fmt::format("it is stored as it is, {} bytes, but should be {} bytes",
                                  member.stored_bytes, member.bytes));
    }
    const std::span<const std::uint8_t> extras(rest);
    Zip64Extra extra(extras.subspan(name_bytes), member.header + local_bytes + name_bytes);
    read_sizes(member, fixed, extra, (flags & has_descriptor) != 0);
  }

  void read_sizes(ZipMember& member, std::span<const std::uint8_t> fixed, Zip64Extra& extra,
                  bool described) const {
    ZipField unused;
    ZipFields said{{member.header + 14, 4}, {member.header + 18, 4}};
    const std::uint64_t crc = number(fixed, 14, 4);
    std::uint64_t stored = number(fixed, 18, 4), bytes = number(fixed, 22, 4);
    const bool whole = extra.resolve(bytes, unused) && extra.resolve(stored, said.stored_bytes);
    const bool same = whole && crc == member.crc32 && stored == member.stored_bytes && bytes == member.bytes;
    if (same) member.said.push_back(said);
    if (described && read_descriptor(member)) {
      if (!same && (crc != 0 || (stored != 0 && stored != in_zip64) || (bytes != 0 && bytes != in_zip64))) {
        damaged(member, "its local header and the central directory contradict each other");
      }
      return;
    }
    if (!same) {
      damaged(member, described ? "its data descriptor and the central directory contradict each other"
                                : "its local header and the central directory contradict each other");
    }
  }

  /// Data descriptors with and without a mark, with 4 and with 8 bytes for each size.
  [[nodiscard]] bool read_descriptor(ZipMember& member) const {
    std::array<std::uint8_t, 24> bytes{};
    const std::uint64_t there = std::min<std::uint64_t>(bytes.size(), tail_.central - member.end);
    file_.read(member.end, std::span(bytes).first(there), "a data descriptor");
    for (const unsigned mark : {4U, 0U}) {
      if (mark != 0 && number(bytes, 0, 4) != descriptor_mark) continue;
      for (const unsigned width : {4U, 8U}) {
        if (mark + 4 + 2 * width > there || number(bytes, mark, 4) != member.crc32) continue;
        if (number(bytes, mark + 4, width) != member.stored_bytes) continue;
        if (number(bytes, mark + 4 + width, width) != member.bytes) continue;
        member.said.push_back({{member.end + mark, 4}, {member.end + mark + 4, width}});
        member.end += mark + 4 + 2 * width;
        return true;
      }
    }
    return false;
  }

  const BoundedFile& file_;
  const ZipTail& tail_;
  unsigned method_ = 0;
};

}  // namespace

ZipDirectory::ZipDirectory(const BoundedFile& file) {
  const End end = EndReader(file).read();
  tail_ = end.tail;
  const auto bytes = file.read(tail_.central, end.central_size, "the central directory");
  ByteCursor cursor(bytes, file.name(), "the central directory");
  members_.reserve(end.entries);
  for (std::uint64_t i = 0; i < end.entries; ++i) {
    members_.push_back(MemberReader(file, tail_).read(cursor));
  }
  if (cursor.left() != 0) {
    fail(ErrorCode::bad_file, "{}: the central directory has {} bytes after its last entry", file.name(),
         cursor.left());
  }
  std::sort(members_.begin(), members_.end(),
            [](const ZipMember& a, const ZipMember& b) { return a.header < b.header; });
  for (std::size_t i = 1; i < members_.size(); ++i) {
    if (members_[i].header >= members_[i - 1].end) continue;
    fail(ErrorCode::bad_file, "{}: members {} and {} of the zip archive share bytes", file.name(),
         printable(members_[i - 1].name), printable(members_[i].name));
  }
  by_name_.resize(members_.size());
  std::iota(by_name_.begin(), by_name_.end(), std::size_t{0});
  std::sort(by_name_.begin(), by_name_.end(),
            [&](std::size_t a, std::size_t b) { return members_[a].name < members_[b].name; });
  for (std::size_t i = 1; i < by_name_.size(); ++i) {
    const std::string& name = members_[by_name_[i]].name;
    if (name != members_[by_name_[i - 1]].name) continue;
    fail(ErrorCode::bad_file, "{}: two members of the zip archive are named {}", file.name(),
         printable(name));
  }
}

const ZipMember* ZipDirectory::find(std::string_view name) const {
  const auto at =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](std::size_t i, std::string_view other) { return members_[i].name < other; });
  return at != by_name_.end() && members_[*at].name == name ? &members_[*at] : nullptr;
}

}  // namespace bitrift::archive
