#include "ckpt/set/set_container.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "archive/bounded_file.h"
#include "archive/pickle/pickle.h"
#include "ckpt/container/array_block.h"
#include "ckpt/container/open_container.h"
#include "ckpt/set/set_values.h"
#include "core/error.h"

namespace bitrift::ckpt {
namespace {

/// The one tensor that an archive of torch.distributed.checkpoint holds.
Block only_block(Container& container, const std::string& where) {
  std::vector<Block> blocks = container.blocks();
  if (blocks.size() == 1) return std::move(blocks.front());
  fail(ErrorCode::bad_file, "{}: holds {} tensors, not one", where, blocks.size());
}

}  // namespace

/// Passes each alteration on to the file that it is in.
class SetRewriter final : public Rewriter {
 public:
  explicit SetRewriter(const SetContainer& set) : set_(set), rewriters_(set.members_.size()) {}

  void change(std::uint64_t offset, std::span<const std::uint8_t> before,
              std::span<const std::uint8_t> after) override {
    const auto [rewriter, base] = at(offset);
    rewriter.change(offset - base, before, after);
  }
  void put(std::uint64_t offset, std::span<const std::uint8_t> bytes, const h5map::Seal& seal) override {
    const auto [rewriter, base] = at(offset);
    rewriter.put(offset - base, bytes, seal);
  }
  void put_chunk(const Values&, const h5map::Chunk&, EncodedChunk) override {
    fail(ErrorCode::internal, "compressed values of a set of files are not altered");
  }
  NewBytes finish() override {
    NewBytes all;
    for (std::size_t i = 0; i < rewriters_.size(); ++i) {
      if (!rewriters_[i]) continue;
      const SetContainer::Member& member = set_.members_[i];
      for (auto& [offset, bytes] : rewriters_[i]->finish()) {
        if (offset + bytes.size() > member.container->bytes())
          fail(ErrorCode::unsupported, "{}: would become longer: alter it by itself",
               set_.files_.path_of(member.part).string());
        all.emplace(member.base + offset, std::move(bytes));
      }
    }
    return all;
  }

 private:
  std::pair<Rewriter&, std::uint64_t> at(std::uint64_t offset) {
    const SetContainer::Member* const member = set_.member_at(offset);
    if (member == nullptr) fail(ErrorCode::internal, "byte {} is in no file of the set", offset);
    auto& rewriter = rewriters_[static_cast<std::size_t>(member - set_.members_.data())];
    if (!rewriter) rewriter = member->container->rewriter();
    return {*rewriter, member->base};
  }

  const SetContainer& set_;
  std::vector<std::unique_ptr<Rewriter>> rewriters_;  // of each member, when it is needed
};

SetContainer::SetContainer(FileSet set) : set_(std::move(set)), files_{set_.folder} {
  if (set_.kind == SetKind::distributed) {
    open_pieces(set_);
  } else {
    open_files(set_);
  }
  by_base_.resize(members_.size());
  std::iota(by_base_.begin(), by_base_.end(), std::size_t{0});
  std::sort(by_base_.begin(), by_base_.end(),
            [this](std::size_t a, std::size_t b) { return members_[a].base < members_[b].base; });
  for (std::size_t i = 1; i < by_base_.size(); ++i) {
    const Member& one = members_[by_base_[i]];
    if (one.base < members_[by_base_[i - 1]].end())
      fail(ErrorCode::bad_file, "{}: two of its pieces overlap", files_.path_of(one.part).string());
  }
}

void SetContainer::open_files(const FileSet& set) {
  if (!set.index.empty()) files_.add(set.index, std::filesystem::file_size(set.folder / set.index));
  for (const SetFile& file : set.files) {
    auto container = open_container(set.folder / file.name);
    const std::size_t part = files_.parts.size();
    files_.add(file.name, container->bytes());
    members_.push_back({std::move(container), part, files_.parts.back().first, file.prefix});
  }
}

void SetContainer::open_pieces(const FileSet& set) {
  const archive::BoundedFile metadata(set.folder / set.index);
  if (metadata.size() > archive::most_pickle_bytes) {
    fail(ErrorCode::unsupported, "{}: has {} bytes; at most {} are read", metadata.name(), metadata.size(),
         archive::most_pickle_bytes);
  }
  const auto pickle = metadata.read(0, metadata.size(), "the metadata");
  archive::DistributedContents contents = archive::distributed_contents(pickle, metadata.name());
  tensors_ = std::move(contents.tensors);
  std::map<std::string, std::unique_ptr<archive::BoundedFile>> opened;
  for (const auto& tensor : tensors_) {
    for (const auto& piece : tensor.pieces) opened.try_emplace(piece.file);
  }
  for (const auto& piece : contents.objects) opened.try_emplace(piece.file);
  files_.add(set.index, metadata.size());
  std::map<std::string, std::size_t> parts;
  for (auto& [name, file] : opened) {
    const auto path = set.folder / name;
    if (!std::filesystem::exists(path))
      fail(ErrorCode::not_found, "{}: is missing, and {} names it", path.string(), set.index);
    file = std::make_unique<archive::BoundedFile>(path);
    parts.emplace(name, files_.parts.size());
    files_.add(name, file->size());
  }
  const auto add = [&](const archive::TensorPiece& piece, const std::string& what) {
    const std::string where = fmt::format("{}: {}", (set.folder / piece.file).string(), what);
    if (piece.transformed) {
      fail(ErrorCode::unsupported,
           "{}: was compressed or encrypted by an extension of torch.distributed.checkpoint", where);
    }
    auto part = opened.at(piece.file)->part(piece.offset, piece.bytes, where);
    const std::size_t index = parts.at(piece.file);
    members_.push_back({open_archive(std::make_unique<const archive::BoundedFile>(std::move(part))), index,
                        files_.parts[index].first + piece.offset, ""});
  };
  for (const auto& tensor : tensors_) {
    for (const auto& piece : tensor.pieces) add(piece, archive::printable(tensor.path));
  }
  for (const auto& piece : contents.objects) {
    try {
      add(piece, "an object");
    } catch (const Error& error) {
      if (error.code() == ErrorCode::io) throw;  // whatever else it is, it holds no tensor
    }
  }
}

FileFormat SetContainer::format() const noexcept {
  return members_.empty() ? FileFormat::pytorch : members_.front().container->format();
}

std::vector<Block> SetContainer::blocks_of(const Member& member) const {
  std::vector<Block> blocks = member.container->blocks();
  for (Block& block : blocks) move_block(block, member.base, member.prefix, files_.parts[member.part].name);
  return blocks;
}

Block SetContainer::tensor_block(const archive::DistributedTensor& tensor, std::size_t first_member) const {
  std::vector<ValuePiece> pieces;
  std::vector<TensorInfo> infos;
  std::set<std::string> files;
  std::string problem;
  std::uint64_t stored = 0;
  const std::string where = fmt::format("{}: {}", set_.folder.string(), archive::printable(tensor.path));
  for (std::size_t i = 0; i < tensor.pieces.size(); ++i) {
    const archive::TensorPiece& piece = tensor.pieces[i];
    const Member& member = members_[first_member + i];
    Block block = only_block(*member.container, where);
    if (block.shape != piece.shape)
      fail(ErrorCode::bad_file, "{}: its piece in {} has another shape than the metadata says", where,
           piece.file);
    move_block(block, member.base, "", piece.file);
    const bool alike = infos.empty() || (block.tensors.size() == infos.size() &&
                                         block.tensors.front().dtype == infos.front().dtype &&
                                         block.tensors.front().order == infos.front().order &&
                                         block.tensors.front().negated == infos.front().negated);
    if (!alike) fail(ErrorCode::bad_file, "{}: its pieces have different types", where);
    for (const TensorInfo& one : block.tensors) {
      if (problem.empty()) problem = one.refusal;
    }
    stored += block.tensors.front().stored_bytes;
    files.insert(piece.file);
    pieces.push_back({piece.first, piece.shape, std::move(block.values)});
    if (block.tensors.front().row_bytes == 0) pieces.back().order = block.tensors.front();
    if (infos.empty()) infos = std::move(block.tensors);
  }
  Block whole{tensor.path, tensor.shape, nullptr, {}};
  const bool single = pieces.size() == 1;
  for (TensorInfo& info : infos) {
    const std::size_t suffix = info.path.find(':');
    info.path = tensor.path + (suffix == std::string::npos ? "" : info.path.substr(suffix));
    if (!info.holder.empty()) info.holder = tensor.path;
    if (single) continue;
    info.shape = tensor.shape;
    info.stored_bytes = stored;
    info.offset.reset();
    info.refusal = problem;
    info.row_bytes = infos.size() * info.element_bytes;  // the two parts of a complex number
    info.per_row = 1;
    info.steps.clear();
    info.file = fmt::format("{}", fmt::join(files, ", "));
  }
  const std::uint64_t element_bytes =
      infos.empty() ? 1 : std::max<std::uint64_t>(infos.size() * infos.front().element_bytes, 1);
  whole.values = single
                     ? std::move(pieces.front().values)
                     : std::make_unique<PiecedValues>(tensor.shape, element_bytes, std::move(pieces), where);
  whole.tensors = std::move(infos);
  return whole;
}

/// An index must not promise tensors that its files do not hold.
void SetContainer::check_index(const std::vector<Block>& blocks) const {
  std::map<std::string, std::string> places;
  for (const Block& block : blocks) {
    if (!block.tensors.empty()) places.emplace(block.path, block.tensors.front().file);
  }
  for (const auto& [tensor, file] : set_.indexed) {
    const auto found = places.find(tensor);
    if (found != places.end() && found->second == file) continue;
    // Keras writes the path of a layer, whose variables have paths below it.
    const auto below = places.lower_bound(tensor.starts_with('/') ? tensor.substr(1) + '/' : tensor + '/');
    if (below != places.end() &&
        below->first.starts_with(tensor.starts_with('/') ? tensor.substr(1) : tensor))
      continue;
    fail(ErrorCode::bad_file, "{}: does not hold tensor {}, which the index says is in it",
         (set_.folder / file).string(), archive::printable(tensor));
  }
}

std::vector<Block> SetContainer::blocks() {
  std::vector<Block> blocks;
  if (set_.kind == SetKind::distributed) {
    std::size_t member = 0;
    for (const archive::DistributedTensor& tensor : tensors_) {
      blocks.push_back(tensor_block(tensor, member));
      member += tensor.pieces.size();
    }
  } else {
    for (const Member& member : members_) {
      for (Block& block : blocks_of(member)) blocks.push_back(std::move(block));
    }
    check_index(blocks);
  }
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const Block& a, const Block& b) { return a.path < b.path; });
  return blocks;
}

std::vector<std::string> SetContainer::written_order() const {
  std::vector<std::string> order;
  if (set_.kind == SetKind::distributed) return order;  // that of the ranks
  for (const Member& member : members_) {
    for (const std::string& path : member.container->written_order()) order.push_back(member.prefix + path);
  }
  return order;
}

std::map<std::string, std::string> SetContainer::root_texts() const {
  std::map<std::string, std::string> texts;
  for (const Member& member : members_) texts.merge(member.container->root_texts());
  return texts;
}

std::vector<std::string> SetContainer::texts(const std::string& group, const std::string& attribute) const {
  for (const Member& member : members_) {
    if (auto found = member.container->texts(group, attribute); !found.empty()) return found;
  }
  return {};
}

bool SetContainer::marked_open() const noexcept {
  return std::any_of(members_.begin(), members_.end(),
                     [](const Member& one) { return one.container->marked_open(); });
}

const SetContainer::Member* SetContainer::member_at(std::uint64_t offset) const {
  const auto next = std::partition_point(by_base_.begin(), by_base_.end(),
                                         [&](std::size_t i) { return members_[i].base <= offset; });
  if (next == by_base_.begin()) return nullptr;
  const Member& member = members_[*std::prev(next)];
  return offset < member.end() ? &member : nullptr;
}

std::optional<std::string> SetContainer::clash(std::uint64_t first, std::uint64_t end) {
  const Member* const member = member_at(first);
  if (member == nullptr) return "part of a file that no tensor is in";
  return member->container->clash(first - member->base, std::min(end, member->end()) - member->base);
}

std::vector<ByteExtent> SetContainer::metadata() const {
  std::vector<ByteExtent> extents;
  auto next = by_base_.begin();
  for (std::size_t part = 0; part < files_.parts.size(); ++part) {
    const FileList::Part& file = files_.parts[part];
    std::uint64_t at = file.first;
    const auto fill = [&](std::uint64_t end) {
      if (end > at)
        extents.push_back({at, end, file.name + (file.name == set_.index ? "" : ": other objects")});
      at = std::max(at, end);
    };
    for (; next != by_base_.end() && members_[*next].part == part; ++next) {
      const Member& member = members_[*next];
      fill(member.base);
      for (const ByteExtent& one : member.container->metadata())
        extents.push_back({member.base + one.first, member.base + one.end, file.name + ": " + one.structure});
      at = std::max(at, member.end());
    }
    fill(file.end());
  }
  return extents;
}

std::unique_ptr<Rewriter> SetContainer::rewriter() const { return std::make_unique<SetRewriter>(*this); }

std::vector<Container::Section> SetContainer::sections() const {
  std::vector<Section> sections;
  for (const Member& member : members_)
    sections.push_back({member.container.get(), member.part, member.base});
  return sections;
}

}  // namespace bitrift::ckpt
