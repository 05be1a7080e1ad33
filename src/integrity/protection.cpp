#include "integrity/protection.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "ckpt/container/container.h"
#include "core/error.h"
#include "core/file_run.h"

namespace bitrift::integrity {
namespace {

/// The stored bytes of a part; nullopt for the values of a tensor.
std::optional<ckpt::Values::StoredRun> run_of(const SummedPart& part) {
  if (const auto* const member = std::get_if<MemberPlace>(&part.place))
    return ckpt::Values::StoredRun{member->first, member->bytes};
  if (const auto* const chunk = std::get_if<ChunkPlace>(&part.place))
    return ckpt::Values::StoredRun{chunk->chunk.offset, chunk->chunk.bytes};
  return std::nullopt;
}

/// What a seal says of the bytes of a checkpoint, which may count them in another order.
class SealCover {
 public:
  SealCover(const SealCheck& check, const ckpt::Container& container) {
    const FileList& sealed = check.head.files;
    const FileList* const files = container.files();
    if (!check.unusable.empty() || sealed.several() != (files != nullptr)) return;
    if (files == nullptr) {
      add(0, check.head.shape.bytes, 0);
    } else {
      for (const FileList::Part& part : files->parts) {
        const auto same = std::find_if(sealed.parts.begin(), sealed.parts.end(),
                                       [&](const FileList::Part& one) { return one.name == part.name; });
        if (same != sealed.parts.end()) add(part.first, std::min(part.bytes, same->bytes), same->first);
      }
    }
    for (const std::uint64_t block : check.damaged) damaged_.push_back(block * seal_block_bytes);
  }

  /// Whether the seal covers all bytes of the run; sets `damaged` if one of them is in a damaged block.
  [[nodiscard]] bool covers(const ckpt::Values::StoredRun& run, bool& damaged) const {
    const auto next = std::partition_point(files_.begin(), files_.end(), [&](const SealedPart& part) {
      return part.first + part.bytes <= run.offset;
    });
    if (run.bytes == 0) return true;
    if (next == files_.end() || run.offset < next->first ||
        run.bytes > next->bytes - (run.offset - next->first))
      return false;
    const std::uint64_t first = run.offset - next->first + next->sealed;
    const auto block = std::partition_point(damaged_.begin(), damaged_.end(), [first](std::uint64_t at) {
      return at + seal_block_bytes <= first;
    });
    damaged = damaged || (block != damaged_.end() && *block < first + run.bytes);
    return true;
  }

 private:
  struct SealedPart {
    std::uint64_t first, bytes;  ///< as the container counts
    std::uint64_t sealed;        ///< of its first byte, as the seal counts
  };
  void add(std::uint64_t first, std::uint64_t bytes, std::uint64_t sealed) {
    files_.push_back({first, bytes, sealed});
  }
  std::vector<SealedPart> files_;
  std::vector<std::uint64_t> damaged_;  ///< first bytes of damaged blocks, as the seal counts
};

/// Parts by the bytes that they cover, and the seal.
class Cover {
 public:
  Cover(const std::vector<SummedPart>& parts, std::optional<SealCover> seal) : seal_(std::move(seal)) {
    for (const SummedPart& part : parts) {
      if (const auto run = run_of(part)) {
        by_place_.push_back({*run, &part});
      } else {
        by_tensor_.emplace(std::get<ValuesPlace>(part.place).tensor, &part);
      }
    }
    std::sort(by_place_.begin(), by_place_.end(),
              [](const Placed& a, const Placed& b) { return a.run.offset < b.run.offset; });
  }

  [[nodiscard]] VerifiedTensor verified(const ckpt::Reader& reader, const ckpt::TensorInfo& tensor) const {
    VerifiedTensor result{tensor.path, tensor.role, tensor.stored_bytes, TensorState::unprotected, {}, ""};
    const ckpt::Values& values = reader.values(tensor);
    if (!values.unreadable().empty()) {
      result.state = TensorState::unreadable;
      result.reason = values.unreadable();
      return result;
    }
    if (tensor.stored_bytes == 0) {  // there is nothing to protect
      result.state = TensorState::sound;
      return result;
    }
    bool damaged = false;
    bool covered = covers(values, result.sums, damaged);
    const auto own = by_tensor_.find(tensor.holder.empty() ? tensor.path : tensor.holder);
    if (own != by_tensor_.end()) {
      covered = true;
      add(*own->second, result.sums, damaged);
    }
    if (seal_ && sealed(values, damaged)) {
      covered = true;
      result.sums.push_back(SumKind::seal);
    }
    std::sort(result.sums.begin(), result.sums.end());
    result.state = damaged ? TensorState::damaged : covered ? TensorState::sound : TensorState::unprotected;
    return result;
  }

 private:
  static void add(const SummedPart& part, std::vector<SumKind>& sums, bool& damaged) {
    damaged = damaged || !part.damage.empty();
    if (std::find(sums.begin(), sums.end(), part.kind) == sums.end()) sums.push_back(part.kind);
  }

  /// Whether all runs of stored bytes lie within parts.
  [[nodiscard]] bool covers(const ckpt::Values& values, std::vector<SumKind>& sums, bool& damaged) const {
    if (by_place_.empty()) return false;
    std::vector<ckpt::Values::StoredRun> runs;
    try {
      runs = values.stored_runs();
    } catch (const Error&) {
      return false;  // its index is damaged, and no part of it was checked
    }
    bool covered = !runs.empty();
    for (const auto& run : runs) {
      const auto behind = std::partition_point(by_place_.begin(), by_place_.end(), [&](const Placed& one) {
        return one.run.offset <= run.offset;
      });
      const Placed* const one = behind == by_place_.begin() ? nullptr : &*std::prev(behind);
      if (one == nullptr || run.offset - one->run.offset + run.bytes > one->run.bytes) {
        covered = covered && run.bytes == 0;
        continue;
      }
      add(*one->part, sums, damaged);
    }
    return covered;
  }

  [[nodiscard]] bool sealed(const ckpt::Values& values, bool& damaged) const {
    try {
      const auto runs = values.stored_runs();
      return std::count_if(runs.begin(), runs.end(),
                           [&](const auto& run) { return !seal_->covers(run, damaged); }) == 0;
    } catch (const Error&) {
      return false;  // as above
    }
  }

  struct Placed {
    ckpt::Values::StoredRun run;
    const SummedPart* part = nullptr;
  };
  std::vector<Placed> by_place_;
  std::map<std::string, const SummedPart*> by_tensor_;
  std::optional<SealCover> seal_;
};

}  // namespace

std::vector<VerifiedTensor> protected_tensors(const ckpt::Reader& reader,
                                              const std::vector<SummedPart>& parts,
                                              const std::optional<SealCheck>& seal) {
  std::optional<SealCover> sealed;
  if (seal) sealed.emplace(*seal, reader.container());
  const Cover cover(parts, std::move(sealed));
  std::vector<VerifiedTensor> tensors;
  for (const ckpt::TensorInfo& tensor : reader.tensors()) {
    if (!tensor.alias_of.empty() || tensor.role == "checksum") continue;
    tensors.push_back(cover.verified(reader, tensor));
  }
  return tensors;
}

}  // namespace bitrift::integrity
