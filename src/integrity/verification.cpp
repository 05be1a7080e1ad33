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

}  // namespace

bool Verification::sound() const {
  return damage.empty() && (!seal || seal->sound()) &&
         std::all_of(parts.begin(), parts.end(), [](const SummedPart& part) { return part.damage.empty(); });
}

namespace {

/// Whether a folder has the files of a checkpoint, damaged or not.
bool is_set(const std::filesystem::path& folder) {
  try {
    return ckpt::find_file_set(folder).has_value();
  } catch (const Error&) {
    return true;
  }
}

/// Whether an error while a file is read can come from damage: in a file that begins like a checkpoint, or
/// that has a sum that does not fit.
bool is_damage(const Error& error, const Verification& found, const std::filesystem::path& file) {
  if (found.seal && !found.seal->sound() &&
      (error.code() == ErrorCode::not_found || error.code() == ErrorCode::bad_input))
    return true;  // a file of it is lost
  if (!found.sound()) return error.code() == ErrorCode::bad_file || error.code() == ErrorCode::unsupported;
  if (std::filesystem::is_directory(ckpt::root_of_set(file)))
    return error.code() == ErrorCode::bad_file && is_set(file);
  return error.code() == ErrorCode::bad_file && ckpt::has_known_signature(file);
}

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
    move_parts(verify_sums(place).parts, file.name, section.base, parts);
  }
}

/// The sums of a single zip archive whose contents cannot be opened, such as a deflated file that is damaged;
/// none if its directory is damaged, too.
std::vector<SummedPart> sums_of_unopened(const std::filesystem::path& file) {
  if (ckpt::other_than_hdf5(file) != "a zip archive") return {};
  try {
    return check_members(archive::ZipDirectory(archive::BoundedFile(file)), file);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::io) throw;
    return {};
  }
}

Verification sums_of(const std::filesystem::path& file, std::optional<SealCheck> seal) {
  Verification result;
  result.several = std::filesystem::is_directory(ckpt::root_of_set(file));
  result.seal = std::move(seal);
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
    result.tensors = protected_tensors(reader, result.parts, result.seal);
  } catch (const Error& error) {
    if (result.parts.empty() && !result.several && error.code() == ErrorCode::bad_file)
      result.parts = sums_of_unopened(file);
    if (is_damage(error, result, file)) {
      result.damage = error.what();
    } else if (result.seal && comes_from_another_kind(error)) {
      result.other = error.what();
    } else {
      throw;
    }
  }
  if (result.seal && result.bytes == 0) result.bytes = result.seal->head.shape.bytes;
  return result;
}

}  // namespace

bool comes_from_another_kind(const Error& error) {
  return error.code() == ErrorCode::bad_file || error.code() == ErrorCode::unsupported ||
         error.code() == ErrorCode::bad_input;
}

Verification verify_sums(const std::filesystem::path& file) { return sums_of(file, std::nullopt); }

Verification verify(const std::filesystem::path& file) {
  std::error_code none;
  const bool there = std::filesystem::exists(ckpt::root_of_set(file), none);
  return sums_of(file, there ? check_seal(file) : std::nullopt);
}

}  // namespace bitrift::integrity
