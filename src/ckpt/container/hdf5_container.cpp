#include "ckpt/container/hdf5_container.h"

#include <algorithm>
#include <utility>

#include "ckpt/format/hdf5_values.h"
#include "ckpt/format/shared_bytes.h"
#include "ckpt/format/tensors_of_dataset.h"
#include "ckpt/format/units.h"
#include "core/error.h"
#include "h5map/chunk/rewrite.h"

namespace bitrift::ckpt {
namespace {

/// Chunks keep their place or move to the end; checksums of HDF5's structures are updated.
class Hdf5Rewriter final : public Rewriter {
 public:
  explicit Hdf5Rewriter(const h5map::File& file) : rewrite_(file.source(), file.superblock()) {}

  void change(std::uint64_t, std::span<const std::uint8_t>, std::span<const std::uint8_t>) override {}
  void put(std::uint64_t offset, std::span<const std::uint8_t> bytes, const h5map::Seal& seal) override {
    rewrite_.put(offset, bytes);
    rewrite_.touch(seal);
  }
  void put_chunk(const Values& values, const h5map::Chunk& chunk, EncodedChunk encoded) override {
    rewrite_.put_chunk(*static_cast<const Hdf5Values&>(values).chunks(), chunk, std::move(encoded.bytes),
                       encoded.mask);
  }
  NewBytes finish() override { return rewrite_.finish(); }

 private:
  h5map::Rewrite rewrite_;
};

/// Datasets over the same bytes are refused, also those that could not be altered only because of their type.
void refuse_shared(std::vector<Block>& blocks, std::vector<OwnedRun> runs) {
  const auto shared = owners_that_share(std::move(runs));
  for (const auto& [owner, other] : shared) {
    for (TensorInfo& tensor : blocks[owner].tensors) {
      if (!tensor.refusal.empty() && !tensor.refused_by_type) continue;
      tensor.refusal = "it shares stored bytes with " + blocks[other].path;
      tensor.refused_by_type = false;
    }
  }
}

}  // namespace

Hdf5Container::Hdf5Container(h5map::File file, FileDescriptor fd)
    : file_(std::move(file)), fd_(std::move(fd)), room_(room_beside(file_.source().size())) {}
Hdf5Container::~Hdf5Container() = default;

std::vector<Block> Hdf5Container::blocks() {
  std::vector<Block> blocks;
  std::vector<OwnedRun> runs;
  for (const h5map::Dataset& dataset : file_.datasets()) {
    std::vector<Values::StoredRun> stored;
    blocks.push_back(describe_dataset(dataset, dataset.path, stored));
    for (const Values::StoredRun& run : stored) {
      runs.push_back({run.offset, run.offset + run.bytes, blocks.size() - 1});
    }
  }
  refuse_shared(blocks, std::move(runs));
  add_aliases(blocks);
  return blocks;
}

// Further hard links to a dataset.
void Hdf5Container::add_aliases(std::vector<Block>& blocks) {
  const std::vector<h5map::Dataset>& datasets = file_.datasets();
  const std::size_t primaries = blocks.size();
  for (std::size_t i = 0; i < primaries; ++i) {
    for (const std::string& path : datasets[i].other_paths) {
      std::vector<Values::StoredRun> same;
      Block alias = describe_dataset(datasets[i], path, same);
      const std::vector<TensorInfo>& parts = blocks[i].tensors;
      // If space is short, later ones have fewer.
      for (std::size_t part = 0; part < std::min(alias.tensors.size(), parts.size()); ++part) {
        alias.tensors[part].alias_of = parts[part].path;
        alias.tensors[part].refusal = parts[part].refusal;
        alias.tensors[part].refused_by_type = parts[part].refused_by_type;
      }
      blocks.push_back(std::move(alias));
    }
  }
  std::sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.path < b.path; });
}

Block Hdf5Container::describe_dataset(const h5map::Dataset& dataset, const std::string& path,
                                      std::vector<Values::StoredRun>& runs) {
  Block block{path,
              dataset.space.shape,
              std::make_unique<Hdf5Values>(ValueSource{file_, fd_, lock_, kept_}, dataset),
              {}};
  std::uint64_t stored = 0;
  std::string problem;
  try {
    problem = block.values->unalterable();
    runs = block.values->stored_runs();
    for (const Values::StoredRun& run : runs) stored += run.bytes;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    problem = error.what();
  }
  block.tensors = describe(dataset.type, path, dataset.space.shape, problem, room_);
  for (TensorInfo& tensor : block.tensors) {
    tensor.storage = dataset.type ? storage_name(dataset.layout) : "unknown";
    tensor.stored_bytes = stored;
    const bool placed = dataset.problem.empty() && dataset.layout.storage == h5map::Storage::contiguous &&
                        dataset.layout.offset != h5map::undefined && tensor.whole() && stored > 0;
    if (placed) tensor.offset = dataset.layout.offset;
  }
  return block;
}

/// Shared attributes and heaps let many names share the same text: a text for which there is no space is
/// shown as bytes.
void Hdf5Container::keep_text(const std::string& name, const h5map::Attribute& attribute) {
  if (attribute.bytes > room_) return;
  auto text = h5map::attribute_text(file_.source(), file_.frame(), attribute);
  if (!text) return;
  room_ -= std::min<std::uint64_t>(room_, std::max<std::uint64_t>(text->size(), attribute.bytes));
  attribute_texts_[name] = std::move(*text);
}

void Hdf5Container::add_attributes(const std::string& object, std::uint64_t header,
                                   std::vector<Block>& blocks, const std::string& primary) {
  for (const h5map::Attribute& attribute : file_.attributes(header)) {
    const std::string name = object + "@" + attribute.name;
    Block block{name,
                attribute.space.shape,
                std::make_unique<Hdf5Values>(ValueSource{file_, fd_, lock_, kept_}, name, attribute),
                {}};
    keep_text(name, attribute);
    block.tensors = describe(attribute.type, name, attribute.space.shape, block.values->unalterable(), room_);
    for (TensorInfo& tensor : block.tensors) {
      tensor.attribute = true;
      tensor.role = "attribute";
      tensor.storage = "attribute";
      tensor.stored_bytes = attribute.bytes;
      if (!primary.empty()) tensor.alias_of = primary + tensor.path.substr(object.size());
    }
    blocks.push_back(std::move(block));
  }
}

std::vector<Block> Hdf5Container::attribute_blocks() {
  std::vector<Block> blocks;
  for (const h5map::Group& group : file_.groups()) add_attributes(group.path, group.header, blocks);
  for (const h5map::Dataset& dataset : file_.datasets()) {
    if (!dataset.type) continue;
    add_attributes(dataset.path, dataset.header, blocks);
    for (const std::string& path : dataset.other_paths)
      add_attributes(path, dataset.header, blocks, dataset.path);
  }
  return blocks;
}

std::optional<std::string> Hdf5Container::text_of(const std::string& attribute) const {
  const auto found = attribute_texts_.find(attribute);
  if (found == attribute_texts_.end()) return std::nullopt;
  return found->second;
}

/// The whole file is examined, at the first call.
std::optional<std::string> Hdf5Container::clash(std::uint64_t first, std::uint64_t end) {
  std::call_once(clashes_once_, [&] {
    const std::lock_guard guard(lock_);
    clashes_ = file_.clashes();
  });
  const auto found = std::partition_point(clashes_.begin(), clashes_.end(),
                                          [&](const h5map::Clash& one) { return one.end <= first; });
  if (found == clashes_.end() || found->first >= end) return std::nullopt;
  return found->what;
}

std::vector<ByteExtent> Hdf5Container::metadata() const {
  const h5map::StructureMap map = file_.structures();
  std::vector<ByteExtent> extents;
  for (const h5map::Extent& extent : map.extents()) {
    if (extent.kind.starts_with("raw data")) continue;
    const std::string owner = extent.owner.empty() ? "" : fmt::format(" of {}", extent.owner);
    extents.push_back({extent.first, extent.end, std::string(extent.kind) + owner});
  }
  return extents;
}

std::unique_ptr<Rewriter> Hdf5Container::rewriter() const { return std::make_unique<Hdf5Rewriter>(file_); }

}  // namespace bitrift::ckpt
