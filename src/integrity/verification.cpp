#include "integrity/verification.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "archive/zip_directory.h"
#include "ckpt/container/open_container.h"
#include "ckpt/format/hdf5_values.h"
#include "ckpt/reader.h"
#include "ckpt/set/file_set.h"
#include "ckpt/set/open_checkpoint.h"
#include "core/crc32c.h"
#include "core/error.h"
#include "core/process/parallel_for.h"
#include "h5map/filter/codec.h"
#include "integrity/member_sums.h"

namespace bitrift::integrity {
namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::uint64_t values_at_once = std::uint64_t{1} << 20U;

// --- chunks of HDF5 ---

/// The sum that a chunk carries, if any: the first in the order in which a reader meets them.
std::optional<SumKind> sum_of(const std::vector<h5map::Filter>& filters, std::uint32_t mask) {
  for (std::size_t i = filters.size(); i-- > 0;) {
    if ((mask >> i & 1U) != 0) continue;
    if (filters[i].id == h5map::filter_fletcher32) return SumKind::fletcher32;
    if (filters[i].id == h5map::filter_deflate) return SumKind::adler32;
  }
  return std::nullopt;
}

void check_chunks(const ckpt::Hdf5Values& values, const h5map::Dataset& dataset,
                  std::vector<SummedPart>& parts) {
  std::vector<h5map::Chunk> chunks;
  values.chunks()->visit([&](const h5map::Chunk& chunk) {
    if (chunk.filtered && sum_of(dataset.layout.filters, chunk.mask)) chunks.push_back(chunk);
  });
  std::vector<std::string> damage(chunks.size());
  parallel_for(
      chunks.size(),
      [&](std::size_t i) {
        try {
          (void)values.decode(chunks[i]);
        } catch (const Error& error) {
          if (error.code() != ErrorCode::bad_file) throw;
          damage[i] = error.what();
        }
      },
      4 * values.chunk_bytes());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    SummedPart part;
    part.kind = *sum_of(dataset.layout.filters, chunks[i].mask);
    part.name = fmt::format("raw chunk {} of /{}", chunks[i].cell, dataset.path);
    part.place = ChunkPlace{dataset.path, chunks[i]};
    part.damage = damage[i];
    parts.push_back(std::move(part));
  }
}

// --- values of tensors ---

/// The CRC-32C of a tensor's values; nullopt, and the reason, if they cannot be decoded.
std::optional<std::uint32_t> crc32c_of(const ckpt::Reader& reader, const ckpt::TensorInfo& tensor,
                                       std::string& reason) {
  const std::uint64_t width = tensor.element_bytes;
  const std::uint64_t elements = tensor.elements();
  const std::uint64_t stride = std::max<std::uint64_t>(reader.values(tensor).stride() / width, 1);
  const std::uint64_t step = std::max(values_at_once / width / stride, std::uint64_t{1}) * stride;
  std::uint32_t crc = 0;
  Bytes piece;
  try {
    for (std::uint64_t at = 0; at < elements; at += step) {
      const std::uint64_t count = std::min(step, elements - at);
      piece.resize(count * width);
      reader.read_elements(tensor, at, count, piece.data());
      crc = crc32c(piece.data(), piece.size(), crc);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_file) throw;
    reason = error.what();
    return std::nullopt;
  }
  return crc;
}

bool can_be_summed(const ckpt::TensorInfo& tensor) {
  return tensor.plain && tensor.alias_of.empty() && tensor.element_bytes > 0 && tensor.holder.empty();
}

void check_values(const ckpt::Reader& reader, std::vector<SummedPart>& parts) {
  std::vector<SummedPart> found;
  std::vector<const ckpt::TensorInfo*> tensors;
  for (const ckpt::TensorInfo& tensor : reader.tensors()) {
    if (!can_be_summed(tensor)) continue;
    const auto stored = reader.checksum(tensor.path);
    if (!stored) continue;
    SummedPart part;
    part.kind = SumKind::crc32c;
    part.name = "values of " + tensor.path;
    part.place = ValuesPlace{tensor.path};
    part.expected = stored->value;
    found.push_back(std::move(part));
    tensors.push_back(&tensor);
  }
  parallel_for(found.size(), [&](std::size_t i) {
    SummedPart& part = found[i];
    part.found = crc32c_of(reader, *tensors[i], part.damage).value_or(0);
    if (part.damage.empty() && part.found != part.expected) {
      part.damage = fmt::format("its CRC-32C is {:08x}, not {:08x} as stored", part.found, part.expected);
    }
  });
  parts.insert(parts.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
}

void check_hdf5(const ckpt::Reader& reader, std::vector<SummedPart>& parts) {
  std::map<std::string, const h5map::Dataset*> datasets;
  for (const h5map::Dataset& dataset : reader.container().hdf5()->datasets())
    datasets.emplace(dataset.path, &dataset);
  std::set<const ckpt::Values*> seen;  // parts of a dataset share its values
  for (const ckpt::TensorInfo& tensor : reader.tensors()) {
    if (tensor.storage != "chunked+filters" || !tensor.alias_of.empty()) continue;
    const auto& values = reader.values(tensor);
    const auto dataset = datasets.find(tensor.holder.empty() ? tensor.path : tensor.holder);
    if (dataset == datasets.end() || !values.unreadable().empty() || !seen.insert(&values).second) continue;
    check_chunks(dynamic_cast<const ckpt::Hdf5Values&>(values), *dataset->second, parts);
  }
  check_values(reader, parts);
}

// --- which tensors the parts protect ---

/// The stored bytes of a part; nullopt for the values of a tensor.
std::optional<ckpt::Values::StoredRun> run_of(const SummedPart& part) {
  if (const auto* const member = std::get_if<MemberPlace>(&part.place))
    return ckpt::Values::StoredRun{member->first, member->bytes};
  if (const auto* const chunk = std::get_if<ChunkPlace>(&part.place))
    return ckpt::Values::StoredRun{chunk->chunk.offset, chunk->chunk.bytes};
  return std::nullopt;
}

/// Parts by the bytes that they cover.
class Cover {
 public:
  explicit Cover(const std::vector<SummedPart>& parts) {
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

  struct Placed {
    ckpt::Values::StoredRun run;
    const SummedPart* part = nullptr;
  };
  std::vector<Placed> by_place_;
  std::map<std::string, const SummedPart*> by_tensor_;
};

}  // namespace

namespace {

record::Json part_json(const SummedPart& part) {
  record::Json value = {{"part", part.name}, {"sum", name_of(part.kind)}};
  value["state"] = part.damage.empty() ? "sound" : "damaged";
  if (!part.damage.empty()) value["damage"] = part.damage;
  return value;
}

record::Json tensor_json(const VerifiedTensor& tensor) {
  record::Json sums = record::Json::array();
  for (const SumKind kind : tensor.sums) sums.push_back(name_of(kind));
  record::Json value = {{"path", tensor.path},
                        {"role", tensor.role},
                        {"bytes", tensor.bytes},
                        {"state", name_of(tensor.state)},
                        {"sums", std::move(sums)}};
  if (!tensor.reason.empty()) value["reason"] = tensor.reason;
  return value;
}

}  // namespace

record::Json to_json(const Verification& found) {
  record::Json parts = record::Json::array();
  for (const SummedPart& part : found.parts) parts.push_back(part_json(part));
  record::Json tensors = record::Json::array();
  for (const VerifiedTensor& tensor : found.tensors) tensors.push_back(tensor_json(tensor));
  record::Json value = {{"format", name_of(found.format)},
                        {"bytes", found.bytes},
                        {"sound", found.sound()},
                        {"parts", std::move(parts)},
                        {"tensors", std::move(tensors)}};
  if (!found.damage.empty()) value["damage"] = found.damage;
  return value;
}

bool Verification::sound() const {
  return damage.empty() &&
         std::all_of(parts.begin(), parts.end(), [](const SummedPart& part) { return part.damage.empty(); });
}

namespace {

/// Whether an error while a file is read can come from damage: in a file that begins like a checkpoint, or
/// that has a sum that does not fit.
bool is_damage(const Error& error, const Verification& found, const std::filesystem::path& file) {
  if (!found.sound()) return error.code() == ErrorCode::bad_file || error.code() == ErrorCode::unsupported;
  if (std::filesystem::is_directory(ckpt::root_of_set(file))) return error.code() == ErrorCode::bad_file;
  return error.code() == ErrorCode::bad_file && ckpt::has_known_signature(file);
}

}  // namespace

namespace {

/// The parts of a file of a set as parts of the set.
void move_parts(std::vector<SummedPart> found, const std::string& file, std::uint64_t base,
                std::vector<SummedPart>& parts) {
  for (SummedPart& part : found) {
    part.name = file + ": " + part.name;
    if (auto* const member = std::get_if<MemberPlace>(&part.place)) member->first += base;
    if (auto* const chunk = std::get_if<ChunkPlace>(&part.place)) chunk->chunk.offset += base;
    parts.push_back(std::move(part));
  }
}

/// All sums of a file of a set, or of an archive in one; the sums of a single zip archive.
void check_section(const ckpt::Container& whole, const ckpt::Container::Section& section,
                   const std::filesystem::path& path, std::vector<SummedPart>& parts) {
  const archive::ZipDirectory* const directory = section.container->zip();
  const FileList* const files = whole.files();
  if (files == nullptr) {
    if (directory != nullptr) parts = check_members(*directory, path);
    return;
  }
  const FileList::Part& file = files->parts[section.part];
  const auto place = files->path_of(section.part);
  if (directory != nullptr) {
    move_parts(check_members(*directory, place, section.base - file.first), file.name, section.base, parts);
  } else if (section.container->hdf5() != nullptr) {
    move_parts(verify(place).parts, file.name, section.base, parts);
  }
}

}  // namespace

Verification verify(const std::filesystem::path& file) {
  Verification result;
  result.several = std::filesystem::is_directory(ckpt::root_of_set(file));
  try {
    {
      const auto container = ckpt::open_checkpoint(file);
      result.format = container->format();
      result.bytes = container->bytes();
      // Before anything in an archive is interpreted.
      for (const auto& section : container->sections())
        check_section(*container, section, file, result.parts);
    }
    const ckpt::Reader reader(file);
    if (reader.container().hdf5() != nullptr) check_hdf5(reader, result.parts);
    const Cover cover(result.parts);
    for (const ckpt::TensorInfo& tensor : reader.tensors()) {
      if (!tensor.alias_of.empty() || tensor.role == "checksum") continue;
      result.tensors.push_back(cover.verified(reader, tensor));
    }
  } catch (const Error& error) {
    if (!is_damage(error, result, file)) throw;
    result.damage = error.what();
  }
  return result;
}

}  // namespace bitrift::integrity
