#include "sink/format/zip_image.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "archive/crc32.h"
#include "core/error.h"

namespace bitrift::ckpt {
namespace {

constexpr std::uint32_t local_mark = 0x04034b50, central_mark = 0x02014b50, end_mark = 0x06054b50;
constexpr std::uint32_t end64_mark = 0x06064b50, locator_mark = 0x07064b50;
constexpr std::uint64_t local_bytes = 30, local_crc_at = 14, central_crc_at = 16;
constexpr std::uint64_t in_zip64 = 0xffffffff, members_in_zip64 = 0xffff;
constexpr unsigned usual_version = 20, zip64_version = 45;
constexpr unsigned name_is_utf8 = 0x800;
constexpr unsigned stored_method = 0, deflated_method = 8;
constexpr unsigned first_day = 1U << 5U | 1U;                // 1980-01-01, the earliest date
constexpr unsigned zip64_field = 1, padding_field = 0x4246;  // "FB", as torch.save pads
constexpr std::uint64_t tensor_alignment = 64, field_head = 4;

/// Little-endian numbers, one after the other.
class Fields {
 public:
  Fields& put(std::uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i) bytes_.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    return *this;
  }
  Fields& put(std::string_view text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    return *this;
  }
  Fields& put(const Fields& other) {
    bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
    return *this;
  }
  [[nodiscard]] std::uint64_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] std::vector<std::uint8_t> take() noexcept { return std::move(bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
};

std::uint64_t narrow(std::uint64_t value) { return std::min(value, in_zip64); }

}  // namespace

struct ZipImage::Member {
  std::string_view name;
  unsigned method = stored_method;
  std::uint64_t stored_bytes = 0, bytes = 0;
  std::optional<std::uint32_t> crc32 = {};  ///< absent: the sum of the last tensor
  bool aligned = false;

  [[nodiscard]] bool large() const noexcept { return stored_bytes >= in_zip64 || bytes >= in_zip64; }
  /// Both sizes, in the form of a local header.
  [[nodiscard]] Fields zip64() const {
    Fields extra;
    if (large()) extra.put(zip64_field, 2).put(16, 2).put(bytes, 8).put(stored_bytes, 8);
    return extra;
  }
  /// What a local header and an entry of the central directory have in common.
  [[nodiscard]] Fields common(bool wide) const {
    Fields fields;
    fields.put(wide ? zip64_version : usual_version, 2).put(name_is_utf8, 2).put(method, 2);
    fields.put(0, 2).put(first_day, 2).put(crc32.value_or(0), 4);
    fields.put(large() ? in_zip64 : stored_bytes, 4).put(large() ? in_zip64 : bytes, 4);
    return fields.put(name.size(), 2);
  }
};

void ZipImage::add(std::string_view name, std::vector<std::uint8_t> bytes) {
  const std::uint64_t size = bytes.size();
  const std::uint32_t sum = archive::crc32(bytes);
  add(Member{.name = name, .stored_bytes = size, .bytes = size, .crc32 = sum}, std::move(bytes));
}

void ZipImage::add_tensor(std::string_view name, std::vector<std::uint8_t> head, const std::string& path,
                          std::uint64_t bytes) {
  const std::uint64_t size = head.size() + bytes;
  image_.tensors.push_back({path, 0, bytes, {}, archive::crc32(head)});
  add(Member{.name = name, .stored_bytes = size, .bytes = size, .aligned = true}, std::move(head));
}

void ZipImage::add_deflated(std::string_view name, std::vector<std::uint8_t> packed, std::uint64_t bytes,
                            std::uint32_t crc32) {
  const Member member{
      .name = name, .method = deflated_method, .stored_bytes = packed.size(), .bytes = bytes, .crc32 = crc32};
  add(member, std::move(packed));
}

void ZipImage::add(const Member& member, std::vector<std::uint8_t> known) {
  if (member.name.size() > members_in_zip64)
    fail(ErrorCode::bad_input, "a zip archive has no place for a name of {} bytes", member.name.size());
  const std::uint64_t header = image_.file_bytes;
  Fields extra = member.zip64();
  const std::uint64_t end = header + local_bytes + member.name.size() + extra.size();
  if (member.aligned && end % tensor_alignment != 0) {
    std::uint64_t padding = tensor_alignment - end % tensor_alignment;
    if (padding < field_head) padding += tensor_alignment;
    extra.put(padding_field, 2).put(padding - field_head, 2);
    for (std::uint64_t i = field_head; i < padding; ++i) extra.put(0, 1);
  }
  Fields local;
  local.put(local_mark, 4).put(member.common(member.large())).put(extra.size(), 2);
  std::vector<std::uint8_t> bytes = local.put(member.name).put(extra).take();
  const std::uint64_t data = header + bytes.size();
  bytes.insert(bytes.end(), known.begin(), known.end());
  if (member.crc32) {
    image_.pieces.push_back({header, std::move(bytes)});
  } else {
    const auto crc = bytes.begin() + local_crc_at;
    image_.pieces.push_back({header, {bytes.begin(), crc}});
    image_.pieces.push_back({header + local_crc_at + 4, {crc + 4, bytes.end()}});
    Image::Tensor& tensor = image_.tensors.back();
    if (tensor.bytes > 0) tensor.offset = data + known.size();
    tensor.checksums_at.push_back(header + local_crc_at);
    central_holes_.push_back(central_.size() + central_crc_at);
    hole_tensors_.push_back(image_.tensors.size() - 1);
  }
  image_.file_bytes = data + member.stored_bytes;

  Fields wide;  // sizes of a large member, then the place of its header
  if (member.large()) wide.put(member.bytes, 8).put(member.stored_bytes, 8);
  if (header >= in_zip64) wide.put(header, 8);
  const std::uint64_t wide_bytes = wide.size();
  Fields central;
  const bool needs64 = wide_bytes > 0;
  central.put(central_mark, 4).put(needs64 ? zip64_version : usual_version, 2).put(member.common(needs64));
  central.put(needs64 ? wide_bytes + field_head : 0, 2).put(0, 2).put(0, 2).put(0, 2).put(0, 4);
  central.put(narrow(header), 4).put(member.name);
  if (needs64) central.put(zip64_field, 2).put(wide_bytes, 2).put(wide);
  const std::vector<std::uint8_t> entry = central.take();
  central_.insert(central_.end(), entry.begin(), entry.end());
  ++members_;
}

Image ZipImage::finish() {
  const std::uint64_t begin = image_.file_bytes, size = central_.size();
  Fields end;
  if (members_ >= members_in_zip64 || begin >= in_zip64 || size >= in_zip64) {
    end.put(end64_mark, 4).put(44, 8).put(zip64_version, 2).put(zip64_version, 2).put(0, 4).put(0, 4);
    end.put(members_, 8).put(members_, 8).put(size, 8).put(begin, 8);
    end.put(locator_mark, 4).put(0, 4).put(begin + size, 8).put(1, 4);
  }
  const std::uint64_t counted = std::min(members_, members_in_zip64);
  end.put(end_mark, 4).put(0, 2).put(0, 2).put(counted, 2).put(counted, 2);
  end.put(narrow(size), 4).put(narrow(begin), 4).put(0, 2);
  const std::vector<std::uint8_t> tail = end.take();
  central_.insert(central_.end(), tail.begin(), tail.end());
  std::uint64_t at = 0;
  const auto add_piece = [&](std::uint64_t to) {
    const auto place = [&](std::uint64_t i) { return central_.begin() + static_cast<std::ptrdiff_t>(i); };
    image_.pieces.push_back({begin + at, {place(at), place(to)}});
  };
  for (std::size_t i = 0; i < central_holes_.size(); ++i) {
    add_piece(central_holes_[i]);
    at = central_holes_[i] + 4;
    image_.tensors[hole_tensors_[i]].checksums_at.push_back(begin + central_holes_[i]);
  }
  add_piece(central_.size());
  image_.file_bytes = begin + central_.size();
  image_.checksum = Checksum::crc32;
  std::sort(image_.tensors.begin(), image_.tensors.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return std::move(image_);
}

}  // namespace bitrift::ckpt
