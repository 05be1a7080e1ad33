#include "h5map/message/link.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "core/error.h"
#include "h5map/structure/block.h"
#include "h5map/structure/btree2.h"
#include "h5map/structure/fractal_heap.h"
#include "h5map/structure/heap.h"
#include "h5map/structure/seal.h"

namespace bitrift::h5map {
namespace {

constexpr std::string_view kTree = "group B-tree node";
constexpr std::string_view symbol_table_what = "symbol table node";
constexpr std::string_view kMessage = "link";
constexpr unsigned kLinksByName = 5;

/// The groups of the older format: a B-tree whose leaves are symbol table nodes, names in a local heap.
class SymbolTable {
 public:
  SymbolTable(const Source& source, const Superblock& superblock, const Message& message)
      : source_(source), superblock_(superblock), frame_(superblock.frame) {
    Cursor cursor(message.body, source.name(), "symbol table message");
    root_ = place(source, frame_, cursor.address(frame_.offset_bytes), kTree);
    heap_ = place(source, frame_, cursor.address(frame_.offset_bytes), kTree);
  }

  void read(std::vector<Link>& links) {
    const LocalHeap heap(source_, frame_, heap_);
    if (root_ == undefined) return;
    const auto before = static_cast<std::ptrdiff_t>(links.size());
    // The level of a node is one less than its parent's, which a circle cannot satisfy.
    std::vector<std::pair<std::uint64_t, int>> open{{root_, -1}};
    while (!open.empty()) {
      const auto [offset, level] = open.back();
      open.pop_back();
      read_node(offset, level, open, heap, links);
    }
    // Removed names may stay in the keys of nodes, but HDF5 finds no name that is out of order.
    if (!std::is_sorted(links.begin() + before, links.end(),
                        [](const Link& a, const Link& b) { return a.name < b.name; })) {
      fail(ErrorCode::bad_file, "{}: the names in the group B-tree at byte {} are not in order",
           source_.name(), root_);
    }
  }

 private:
  void read_node(std::uint64_t offset, int expected, std::vector<std::pair<std::uint64_t, int>>& open,
                 const LocalHeap& heap, std::vector<Link>& links) {
    if (!seen_.insert(offset).second) {
      fail(ErrorCode::bad_file, "{}: group B-tree node at byte {} has two parents", source_.name(), offset);
    }
    const std::uint64_t head = 8U + 2U * frame_.offset_bytes;
    const auto first = source_.read(offset, head, kTree);
    if (std::memcmp(first.data(), "TREE", 4) != 0 || first[4] != 0) {
      fail(ErrorCode::bad_file, "{}: group B-tree node at byte {} lacks its signature", source_.name(),
           offset);
    }
    const int level = first[5];
    const unsigned used = first[6] | unsigned{first[7]} << 8U;
    const std::uint64_t pair = frame_.length_bytes + frame_.offset_bytes;
    const std::uint64_t room = std::uint64_t{2} * superblock_.internal_k;
    if (used > room || (expected >= 0 && level != expected)) {
      fail(ErrorCode::bad_file, "{}: group B-tree node at byte {} has {} children at level {}",
           source_.name(), offset, used, level);
    }
    source_.note(offset, head + room * pair + frame_.length_bytes, kTree);
    const auto body = source_.read(offset + head, used * pair, kTree);
    Cursor cursor(body, source_.name(), kTree);
    const std::size_t first_child = open.size();
    for (unsigned i = 0; i < used; ++i) {
      cursor.skip(frame_.length_bytes);
      const std::uint64_t child = place(source_, frame_, cursor.address(frame_.offset_bytes), kTree);
      if (level > 0) {
        open.emplace_back(child, level - 1);
      } else {
        read_entries(child, heap, links);
      }
    }
    // The last one is taken first, and names come in order.
    std::reverse(open.begin() + static_cast<std::ptrdiff_t>(first_child), open.end());
  }

  void read_entries(std::uint64_t offset, const LocalHeap& heap, std::vector<Link>& links) {
    if (!seen_.insert(offset).second) {
      fail(ErrorCode::bad_file, "{}: symbol table node at byte {} has two parents", source_.name(), offset);
    }
    const auto first = source_.read(offset, 8, symbol_table_what);
    const unsigned used = first[6] | unsigned{first[7]} << 8U;
    const std::uint64_t room = std::uint64_t{2} * superblock_.leaf_k;
    if (std::memcmp(first.data(), "SNOD", 4) != 0 || first[4] != 1 || used > room) {
      fail(ErrorCode::bad_file, "{}: symbol table node at byte {} is damaged", source_.name(), offset);
    }
    const std::uint64_t entry = 24U + frame_.length_bytes + frame_.offset_bytes;
    source_.note(offset, 8 + room * entry, symbol_table_what);
    const auto body = source_.read(offset + 8, used * entry, symbol_table_what);
    Cursor cursor(body, source_.name(), symbol_table_what);
    for (unsigned i = 0; i < used; ++i) {
      Link link;
      // HDF5 writes the size of the name's offset as a length, whatever the specification says (H5Gent.c).
      link.name = heap.text(cursor.number(frame_.length_bytes));
      source_.spend(link.name.size());
      const std::uint64_t header = cursor.address(frame_.offset_bytes);
      const bool soft = cursor.u32() == 2;
      cursor.skip(20);
      link.kind = soft ? Link::Kind::soft : Link::Kind::hard;
      link.header = place(source_, frame_, header, symbol_table_what);
      links.push_back(std::move(link));
    }
  }

  const Source& source_;
  const Superblock& superblock_;
  const Frame& frame_;
  std::uint64_t root_ = undefined, heap_ = undefined;
  std::set<std::uint64_t> seen_;
};

Link parse_link(const Source& source, const Frame& frame, std::span<const std::uint8_t> body) {
  Cursor cursor(body, source.name(), kMessage);
  if (const unsigned version = cursor.u8(); version != 1) {
    fail(ErrorCode::unsupported, "{}: link version {} is unknown", source.name(), version);
  }
  const unsigned flags = cursor.u8();
  const unsigned kind = (flags & 8U) != 0 ? cursor.u8() : 0;
  Link link;
  if ((flags & 4U) != 0) link.order = cursor.number(8);
  if ((flags & 16U) != 0) cursor.skip(1);
  const auto name = cursor.take(cursor.number(1U << (flags & 3U)));
  link.name.assign(name.begin(), name.end());
  link.kind = kind == 0 ? Link::Kind::hard : kind == 1 ? Link::Kind::soft : Link::Kind::other;
  if (kind == 0) link.header = place(source, frame, cursor.address(frame.offset_bytes), kMessage);
  return link;
}

void read_dense_links(const Source& source, const Frame& frame, const Message& message,
                      std::vector<Link>& links) {
  Cursor cursor(message.body, source.name(), "link info message");
  if (cursor.u8() != 0) fail(ErrorCode::unsupported, "{}: link info version is unknown", source.name());
  if ((cursor.u8() & 1U) != 0) cursor.skip(8);
  const std::uint64_t heap_at = place(source, frame, cursor.address(frame.offset_bytes), kMessage);
  const std::uint64_t tree_at = place(source, frame, cursor.address(frame.offset_bytes), kMessage);
  if (heap_at == undefined || tree_at == undefined) return;
  FractalHeap heap(source, frame, heap_at);
  const BTree2 tree(source, frame, tree_at);
  if (tree.type() != kLinksByName || tree.record_bytes() != 4U + heap.id_bytes()) {
    fail(ErrorCode::bad_file, "{}: B-tree at byte {} is not an index of links", source.name(), tree_at);
  }
  // HDF5 looks a name up by its hash (HDF5 file format 3.0, section III.A.2, record type 5).
  std::uint32_t last = 0;
  tree.visit([&](const BTree2::Record& record) {
    links.push_back(parse_link(source, frame, heap.object(record.bytes.subspan(4)).bytes));
    Cursor hash_cursor(record.bytes, source.name(), kMessage);
    const std::uint32_t hash = hash_cursor.u32();
    const std::string& name = links.back().name;
    if (hash < last || hash != lookup3({reinterpret_cast<const std::uint8_t*>(name.data()), name.size()})) {
      fail(ErrorCode::bad_file, "{}: link \"{}\" is not where the index at byte {} has it", source.name(),
           one_line(name), tree_at);
    }
    last = hash;
  });
}

void check_names(const Source& source, const std::vector<Link>& links) {
  for (std::size_t i = 0; i < links.size(); ++i) {
    const Link& link = links[i];
    if (link.name.empty() || link.name == "." || link.name.find('/') != std::string::npos ||
        link.name.find('\0') != std::string::npos) {
      fail(ErrorCode::bad_file, "{}: a link has the name \"{}\", which cannot be", source.name(),
           one_line(link.name));
    }
    if (i > 0 && links[i - 1].name == link.name) {
      fail(ErrorCode::bad_file, "{}: two links have the name \"{}\"", source.name(), one_line(link.name));
    }
    if (link.kind == Link::Kind::hard && link.header == undefined) {
      fail(ErrorCode::bad_file, "{}: link \"{}\" leads nowhere", source.name(), one_line(link.name));
    }
  }
}

}  // namespace

bool is_group(const ObjectHeader& header) noexcept {
  return header.find(message::symbol_table) != nullptr || header.find(message::link_info) != nullptr;
}

std::vector<Link> read_links(const Source& source, const Superblock& superblock, const ObjectHeader& group) {
  std::vector<Link> links;
  for (const Message& message : group.messages) {
    if (message.type == message::symbol_table) {
      SymbolTable(source, superblock, message).read(links);
    } else if (message.type == message::link) {
      links.push_back(parse_link(source, superblock.frame, message.body));
    } else if (message.type == message::link_info) {
      read_dense_links(source, superblock.frame, message, links);
    }
  }
  std::sort(links.begin(), links.end(), [](const Link& a, const Link& b) { return a.name < b.name; });
  check_names(source, links);
  return links;
}

std::map<std::uint64_t, const Link*> first_links(const std::vector<Link>& links) {
  std::map<std::uint64_t, const Link*> first;
  for (const Link& link : links) {
    if (link.kind != Link::Kind::hard) continue;
    const Link*& known = first.emplace(link.header, &link).first->second;
    if (link.order && known->order && *link.order < *known->order) known = &link;
  }
  return first;
}

std::string one_line(const std::string& text) {
  std::string shown;
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown += character;
    }
  }
  return shown;
}

}  // namespace bitrift::h5map
