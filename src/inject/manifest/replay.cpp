#include "inject/manifest/replay.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "ckpt/compare.h"
#include "ckpt/set/checkpoint_files.h"
#include "core/error.h"
#include "inject/manifest/manifest_text.h"
#include "inject/write/patch.h"

namespace bitrift::inject {
namespace {

std::string described(const TargetedTensor& tensor) {
  return fmt::format("{} [{}]", tensor.dtype, fmt::join(tensor.shape, ", "));
}

/// The first tensor of the manifest that this file does not have in the same form; "" if there is none.
std::string tensor_difference(const ckpt::Reader& reader, const Manifest& manifest) {
  for (const TargetedTensor& expected : manifest.plan.tensors) {
    const std::vector<TargetedTensor> found = tensors_of(reader, {expected.path});
    if (found.empty()) return fmt::format("it has no tensor {} ({})", expected.path, described(expected));
    if (found.front() != expected) {
      return fmt::format("{} is {}, not {}", expected.path, described(found.front()), described(expected));
    }
  }
  return "";
}

/// Fails at the first old value, in the order of the manifest, that the file does not hold.
void check_values(const ckpt::Reader& reader, const record::FaultList& list) {
  try {
    static_cast<void>(make_patch(reader, list));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::conflict) throw;
    // Chunks are examined in parallel, so it may be any of several values that differ.
    for (const record::ElementChange& change : list.changes) {
      const record::FaultSite& site = list.sites.at(change.site);
      const ckpt::TensorInfo* const tensor =
          site.plane == record::Plane::value ? reader.find(site.tensor) : nullptr;
      NumberFormat format = number_format(site.dtype).value();
      format.order = ByteOrder::little;  // read_elements converts the byte order
      if (tensor == nullptr || tensor->element_bytes != format.bytes ||
          change.element >= tensor->elements()) {
        throw;
      }
      std::uint8_t stored[8] = {};
      reader.read_elements(*tensor, change.element, 1, stored);
      const std::uint64_t found = load_pattern(format, stored);
      if (found == change.old_pattern) continue;
      fail(ErrorCode::conflict, "{}: element {} of {} holds {:#x}, the fault was drawn for {:#x}",
           reader.path().string(), change.element, site.tensor, found, change.old_pattern);
    }
    throw;
  }
}

std::string told(const ckpt::TensorDifference& first) {
  if (first.kind == "only_in_first") return "it has no " + first.path;
  if (first.kind == "only_in_second") return "it has " + first.path + " too";
  if (first.kind == "shape" || first.kind == "dtype") {
    return fmt::format("{} differs: {} (the base against this file)", first.path, first.detail);
  }
  if (first.kind == "not_compared")
    return fmt::format("{} cannot be compared ({})", first.path, first.detail);
  if (!first.detail.empty()) return fmt::format("{} differs: {}", first.path, first.detail);
  return fmt::format("{} differs first in element {}, which holds {:#x}, not {:#x}", first.path,
                     first.first_element, first.first_new, first.first_old);
}

/// The first difference between this file and the base, if the base is still where it was; "" otherwise.
std::string against_base(const ckpt::Reader& reader, const Manifest& manifest) {
  const std::filesystem::path base = manifest.base_path;
  std::error_code none;
  // The name comes from the manifest: anything but a plain file or a folder is not opened.
  if (!(std::filesystem::is_regular_file(base, none) || std::filesystem::is_directory(base, none)) ||
      std::filesystem::equivalent(base, reader.path(), none)) {
    return "";
  }
  try {
    if (ckpt::digest_of(base) != manifest.base_digest) return "";
    const auto differences = ckpt::compare(base, reader.path());
    return differences.empty() ? "the same tensors and texts are stored differently"
                               : told(differences.front());
  } catch (const Error&) {
    return "";  // then size and digest must do
  }
}

/// How the file differs from the base; "" when it is the base, byte for byte.
std::string file_difference(const ckpt::Reader& reader, const Manifest& manifest) {
  const std::uint64_t size = ckpt::bytes_of(reader.path());
  std::string text;
  if (manifest.base_bytes > 0 && size != manifest.base_bytes) {
    text = fmt::format("it has {} bytes, not {}", size, manifest.base_bytes);
  } else {
    const std::string digest = ckpt::digest_of(reader.path());
    if (digest == manifest.base_digest) return "";
    text = fmt::format("its digest is {}, the manifest's {}", digest, manifest.base_digest);
  }
  const std::string more = against_base(reader, manifest);
  return more.empty() ? text : text + ", and " + more;
}

[[noreturn]] void refuse(const ckpt::Reader& reader, const Manifest& manifest, const std::string& difference,
                         const std::string& advice) {
  fail(ErrorCode::conflict, "{}: is not the file that the manifest was drawn from ({}): {}{}{}",
       reader.path().string(), manifest.base_path, difference, advice.empty() ? "" : "; ", advice);
}

[[noreturn]] void refuse_tensor(const ckpt::Reader& reader, const Manifest& manifest,
                                const std::string& difference) {
  fail(ErrorCode::conflict, "{}: does not hold the tensors that the manifest was drawn from ({}): {}",
       reader.path().string(), manifest.base_path, difference);
}

/// The plane and the version that a manifest must have for its tensors to be found by name.
void check_named(const Manifest& manifest) {
  if (manifest.model.plane != record::Plane::value) {
    fail(ErrorCode::bad_input,
         "--by-name works only with plane value: the faults of plane {} are at bytes of one file ({}), which "
         "others have "
         "elsewhere",
         name_of(manifest.model.plane), manifest.base_path);
  }
  std::set<std::string> known;
  for (const TargetedTensor& tensor : manifest.plan.tensors) known.insert(tensor.path);
  const auto refuse_shape = [&](const std::string& of) {
    fail(ErrorCode::bad_input,
         "the manifest does not say the shape of {}, which --by-name compares: replay it on its base ({}) "
         "with "
         "--manifest NEW, and use that one",
         of, manifest.base_path);
  };
  if (known.empty() && manifest.compact) refuse_shape("its tensors");
  for (const record::FaultSite& site : manifest.plan.list.sites) {
    if (!known.contains(site.tensor)) refuse_shape(site.tensor);
  }
}

/// Draws the faults that a compact manifest represents.
void draw_again(const ckpt::Reader& reader, Manifest& manifest, SameBase same) {
  if (same == SameBase::values) {
    fail(ErrorCode::bad_input,
         "--force needs the faults themselves, and this manifest is compact: it holds only what they were "
         "drawn "
         "from ({}); --by-name draws them again on a file of the same tensors",
         manifest.base_path);
  }
  const std::string difference = tensor_difference(reader, manifest);
  if (same == SameBase::tensors && !difference.empty()) refuse_tensor(reader, manifest, difference);
  if (same == SameBase::bytes) {
    const char* const advice =
        "a compact manifest can be replayed on that file only, or with --by-name where tensors and values "
        "are the "
        "same";
    if (!difference.empty()) refuse(reader, manifest, difference, advice);
    if (const std::string text = file_difference(reader, manifest); !text.empty()) {
      refuse(reader, manifest, text, advice);
    }
  }
  Plan again = plan(reader, manifest.model);
  const auto& before = manifest.plan.tensors;
  for (const TargetedTensor& tensor : again.tensors) {
    if (same == SameBase::bytes || std::find(before.begin(), before.end(), tensor) != before.end()) continue;
    refuse_tensor(reader, manifest, fmt::format("{} ({}) is targeted too", tensor.path, described(tensor)));
  }
  manifest.plan = std::move(again);
  if (manifest.plan.list.changes.size() == manifest.fault_count &&
      faults_digest(manifest.plan.list) == manifest.fault_digest) {
    return;
  }
  fail(ErrorCode::conflict,
       "{}: drawing the faults of the manifest again gives different faults ({}; {} were recorded): {}",
       reader.path().string(), manifest.plan.list.changes.size(), manifest.fault_count,
       same == SameBase::bytes ? "it was changed, or written by a version that draws differently"
                               : "values differ, or other tensors have the roles and layers that it names; a "
                                 "manifest with all faults would show which");
}

std::vector<std::string> altered_paths(const record::FaultList& list) {
  std::vector<std::string> paths;
  for (const record::FaultSite& site : list.sites) {
    if (!site.tensor.empty()) paths.push_back(site.tensor);
  }
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

}  // namespace

void check_replay(const ckpt::Reader& reader, Manifest& manifest, SameBase same) {
  if (same == SameBase::tensors) check_named(manifest);
  if (manifest.compact) return draw_again(reader, manifest, same);
  if (same != SameBase::values) {
    const std::string difference = tensor_difference(reader, manifest);
    if (same == SameBase::tensors && !difference.empty()) refuse_tensor(reader, manifest, difference);
    if (!difference.empty()) refuse(reader, manifest, difference, "");
  }
  check_values(reader, manifest.plan.list);
  const std::string difference = same == SameBase::bytes ? file_difference(reader, manifest) : "";
  if (!difference.empty()) {
    const bool named = manifest.model.plane == record::Plane::value && !manifest.plan.tensors.empty();
    refuse(
        reader, manifest, difference,
        fmt::format("all {} old values fit, so {}--force would replay it", manifest.plan.list.changes.size(),
                    named ? "--by-name (the same tensors, stored differently) or " : ""));
  }
  if (same == SameBase::bytes && !manifest.plan.tensors.empty()) return;
  manifest.plan.tensors = tensors_of(reader, altered_paths(manifest.plan.list));
}

}  // namespace bitrift::inject
