#include "integrity/repair.h"

#include <algorithm>
#include <set>
#include <vector>

#include <fcntl.h>

#include "ckpt/container/open_container.h"
#include "ckpt/set/file_set.h"
#include "ckpt/set/open_checkpoint.h"
#include "core/error.h"
#include "core/file.h"
#include "inject/write/apply.h"
#include "integrity/altered_bytes.h"
#include "integrity/seal/make_seal.h"
#include "integrity/structure_search.h"

namespace bitrift::integrity {
namespace {

/// The tensors of which a stored chunk is damaged.
std::set<std::string> with_damaged_chunks(const Verification& found) {
  std::set<std::string> datasets;
  for (const SummedPart& part : found.parts) {
    const auto* const chunk = std::get_if<ChunkPlace>(&part.place);
    if (chunk != nullptr && !part.damage.empty()) datasets.insert(chunk->dataset);
  }
  return datasets;
}

}  // namespace

namespace {

std::string why_not_repairable(const SealCheck& seal) {
  if (!seal.unusable.empty()) return seal.unusable;
  return fmt::format(
      "{}: {} of {} damaged blocks are in stripes with more damage than its {} blocks of parity "
      "can put right{}",
      seal.file.string(), seal.lost, seal.damaged.size(), seal.head.shape.parity_rows,
      2 * seal.damaged.size() > seal.head.shape.blocks()
          ? "; if the checkpoint was overwritten after it was sealed, seal it again"
          : "");
}

}  // namespace

bool RepairPlan::complete() const { return !sound && failure().empty(); }

std::string RepairPlan::failure() const {
  if (seal) return "";
  if (!structure.empty()) return structure;
  for (const ExplainedPart& part : parts) {
    if (!part.explanation.failure.empty()) return part.name + ": " + part.explanation.failure;
  }
  return "";
}

std::vector<FileBit> RepairPlan::bits() const {
  std::vector<FileBit> all;
  for (const ExplainedPart& part : parts)
    all.insert(all.end(), part.explanation.bits.begin(), part.explanation.bits.end());
  std::sort(all.begin(), all.end());
  return all;
}

RepairPlan plan_repair(const std::filesystem::path& file, const Verification& found) {
  RepairPlan plan;
  plan.sound = found.sound();
  if (found.seal && found.seal->repairable()) {
    plan.seal = *found.seal;
    return plan;
  }
  plan.differs_from_seal = found.seal && !found.seal->sound();
  if (std::filesystem::is_directory(ckpt::root_of_set(file))) {
    fail(ErrorCode::unsupported,
         "{}: is a checkpoint in several files without a seal that can repair it; verify names the damaged "
         "one",
         file.string());
  }
  if (!found.damage.empty() && found.parts.empty() && ckpt::other_than_hdf5(file) == "a zip archive") {
    plan.parts.push_back({std::nullopt, "directory of the archive", explain_structure(file)});
    return plan;
  }
  const std::set<std::string> chunks = with_damaged_chunks(found);
  const FlipSearch search(file);
  for (const SummedPart& part : found.parts) {
    if (part.damage.empty()) continue;
    const auto* const values = std::get_if<ValuesPlace>(&part.place);
    if (values != nullptr && chunks.contains(values->tensor)) continue;
    plan.parts.push_back({part.kind, part.name, search.explain(part)});
  }
  if (plan.parts.empty()) plan.structure = found.damage;
  if (plan.parts.empty() && plan.differs_from_seal) plan.structure = why_not_repairable(*found.seal);
  return plan;
}

namespace {

constexpr std::size_t most_listed = 65536;  // bytes: a manifest of some 20 MB

/// What a rebuilt copy holds instead of other bytes, as long as that can be listed.
struct RebuiltBytes {
  AlteredBytes bytes;
  std::uint64_t count = 0;
};

/// Gives the copy the sizes that were sealed, and its lost blocks.
RebuiltBytes rebuild(const SealCheck& seal, const FileRun& copy) {
  const FileList& files = copy.files();
  for (const ResizedFile& one : seal.resized) {
    const auto place = files.several() ? files.root / one.name : files.root;
    std::error_code error;
    if (!one.bytes) {
      std::filesystem::create_directories(place.parent_path(), error);
      (void)open_file(place, O_WRONLY | O_CREAT);
    }
    std::filesystem::resize_file(place, one.sealed_bytes, error);
    if (error)
      fail(ErrorCode::io, "{}: cannot be given its former size: {}", place.string(), error.message());
  }
  RebuiltBytes rebuilt;
  std::vector<std::uint8_t> before;
  rebuild_blocks(seal, [&](const std::uint8_t* data, std::uint64_t bytes, std::uint64_t offset) {
    before.resize(bytes);
    copy.read(before.data(), bytes, offset);
    for (std::uint64_t i = 0; i < bytes; ++i) {
      if (before[i] == data[i]) continue;
      if (rebuilt.count++ < most_listed) rebuilt.bytes[offset + i] = {before[i], data[i]};
    }
    copy.write(data, bytes, offset);
  });
  return rebuilt;
}

/// The same bytes, counted as the checkpoint counts them; nullopt if one is in no file of it.
std::optional<AlteredBytes> recounted(const AlteredBytes& bytes, const FileList& sealed,
                                      const std::filesystem::path& copy) {
  if (!sealed.several()) return bytes;
  const auto container = ckpt::open_checkpoint(copy);
  AlteredBytes result;
  for (const auto& [offset, byte] : bytes) {
    const FileList::Part& from = sealed.parts[sealed.part_of(offset)];
    const auto& parts = container->files()->parts;
    const auto to = std::find_if(parts.begin(), parts.end(),
                                 [&](const FileList::Part& part) { return part.name == from.name; });
    if (to == parts.end()) return std::nullopt;
    result[to->first + offset - from.first] = byte;
  }
  return result;
}

/// Keeps the manifest of a rebuilt copy; otherwise returns why it has none.
std::string keep_rebuilt(const std::filesystem::path& file, const SealCheck& seal,
                         const std::filesystem::path& copy, const RebuiltBytes& rebuilt,
                         const KeepManifest& keep) {
  if (!seal.resized.empty()) return "the size of a file differs, which a manifest cannot state";
  if (rebuilt.count > most_listed)
    return fmt::format("{} bytes differ, which is too many to list", rebuilt.count);
  try {
    const auto bytes = recounted(rebuilt.bytes, seal.head.files, copy);
    if (!bytes) return "a byte of a file without tensors differs, which a manifest cannot state";
    inject::Manifest manifest = manifest_of(*bytes, file, copy);
    keep(manifest);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_file && error.code() != ErrorCode::unsupported) throw;
    return "it is not a checkpoint that bitrift reads, so a manifest cannot name its bytes";
  }
  return "";
}

std::string write_rebuilt(const std::filesystem::path& file, const SealCheck& seal,
                          const std::filesystem::path& output, const KeepManifest& keep) {
  std::string why;
  inject::copy_altered(seal.head.files, output, [&](const FileRun& copy) {
    const RebuiltBytes rebuilt = rebuild(seal, copy);
    if (!compare_with_seal(seal.file, copy.files().root).sound()) {
      fail(ErrorCode::conflict, "{}: the repaired copy differs from what was sealed; nothing was written",
           file.string());
    }
    why = keep_rebuilt(file, seal, copy.files().root, rebuilt, keep);
  });
  return why;
}

}  // namespace

std::string write_repaired(const std::filesystem::path& file, const RepairPlan& plan,
                           const std::filesystem::path& output, const KeepManifest& keep) {
  if (plan.seal) return write_rebuilt(file, *plan.seal, output, keep);
  const AlteredBytes bytes = altered_by(plan.bits(), file);
  inject::copy_altered({file}, output, [&](const FileRun& written) {
    for (const auto& [offset, byte] : bytes) written.write(&byte.after, 1, offset);
    const std::filesystem::path& copy = written.files().root;
    if (!verify(copy).sound()) {
      fail(ErrorCode::conflict,
           "{}: with the flips that its sums suggest, the file is still damaged; nothing was written",
           file.string());
    }
    if (plan.differs_from_seal && !compare_with_seal(seal_path(file), copy).sound()) {
      fail(
          ErrorCode::conflict,
          "{}: with the flips that its sums suggest, it still differs from its seal; nothing was written. If "
          "the seal is out of date, remove it",
          file.string());
    }
    inject::Manifest manifest = manifest_of(bytes, file, copy);
    keep(manifest);
  });
  return "";
}

}  // namespace bitrift::integrity
