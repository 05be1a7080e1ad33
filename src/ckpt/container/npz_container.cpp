#include "ckpt/container/npz_container.h"

#include <algorithm>
#include <span>
#include <utility>

#include "archive/npy_header.h"
#include "archive/npy_text.h"
#include "ckpt/container/array_block.h"
#include "core/error.h"

namespace bitrift::ckpt {
namespace {

constexpr std::string_view suffix = ".npy";

std::string path_of(const archive::ZipMember& member) {
  return member.name.substr(0, member.name.size() - suffix.size());
}

/// A message without the name of the file with which it begins.
std::string without_name(std::string text, const std::string& name) {
  if (text.starts_with(name + ": ")) text.erase(0, name.size() + 2);
  return text;
}

}  // namespace

bool NpzContainer::keep_if_text(const archive::ZipMember& member) {
  if (!member.name.starts_with('@') || !member.name.ends_with(suffix) || !member.problem.empty() ||
      member.bytes > text_room_) {
    return false;
  }
  try {
    const std::vector<std::uint8_t> bytes = beginning(member, member.bytes);
    const archive::NpyHeader header = archive::read_npy_header(bytes, bytes.size(), member.name);
    if (!header.shape.empty() || header.type.name != "string" || !header.type.unicode) return false;
    auto text = archive::utf8_of(std::span(bytes).subspan(header.bytes), header.type.big_endian);
    if (!text) return false;
    text_room_ -= member.bytes;
    keep_text(path_of(member).substr(1), std::move(*text));
    name_rest(member, "text " + path_of(member));
    return true;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    return false;  // described, with the problem in it
  }
}

Block NpzContainer::describe_member(const archive::ZipMember& member) {
  const auto bytes = member_of(member);
  const bool array = member.name.ends_with(suffix) && member.problem.empty();
  if (!array) {
    const archive::ElementType opaque{"opaque", 1, false, false, member.problem.empty()};
    return array_block(member.name, opaque, {member.bytes}, {bytes, 0, member.bytes});
  }
  try {
    return describe_array(member, bytes);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    // The other members can still be read.
    return array_block(path_of(member), {"unreadable", 1, false, false, false}, {member.bytes},
                       {bytes, 0, member.bytes}, without_name(error.what(), file().name()));
  }
}

Block NpzContainer::describe_array(const archive::ZipMember& member,
                                   const std::shared_ptr<const Member>& bytes) {
  const std::string path = path_of(member);
  const archive::NpyHeader header =
      archive::read_npy_header(beginning(member, archive::most_npy_header), member.bytes,
                               file().name() + ": " + archive::printable(member.name));
  ArrayPlace place{bytes, header.bytes, member.bytes};
  if (header.fortran_order && header.type.plain) {
    place.strides = dense_strides(header.shape, header.type.bytes, true);
  }
  name_rest(member, ".npy header of /" + path);
  if (member.deflated) {
    note_values(member.data, member.data + member.stored_bytes);
  } else if (header.bytes < member.bytes) {
    note_values(member.data + header.bytes, member.data + member.stored_bytes);
  }
  return array_block(path, header.type, header.shape, place);
}

std::vector<Block> NpzContainer::blocks() {
  std::vector<Block> blocks;
  for (const archive::ZipMember& member : directory().members()) {
    if (!keep_if_text(member)) blocks.push_back(describe_member(member));
  }
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.path < b.path; });
  return blocks;
}

}  // namespace bitrift::ckpt
