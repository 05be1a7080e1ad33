#include "campaign/worker/private_copy.h"

#include <set>
#include <system_error>
#include <utility>

#include <fcntl.h>

#include "ckpt/set/checkpoint_files.h"
#include "inject/draw/fault_plan.h"
#include "inject/write/write_patch.h"
#include "spec/base_spec.h"

namespace bitrift::campaign {

PrivateCopy::PrivateCopy(const ckpt::Reader& base, std::filesystem::path path, bool shared)
    : base_(base),
      path_(path.replace_extension().concat(record::kept_extension(base.path()))),
      shared_(shared) {
  renew();
}

PrivateCopy::~PrivateCopy() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  forget_runs();
}

std::filesystem::path PrivateCopy::beside(std::string_view what) const {
  return fmt::format("{}.{}", path_.string(), what);
}

void PrivateCopy::forget_runs() const noexcept {
  std::error_code ignored;
  for (const char* what : {"saved", "saved.json", "ledgers", "deaths"})
    std::filesystem::remove_all(beside(what), ignored);
}

std::vector<std::string> PrivateCopy::alter(const record::TrialSpec& run) {
  const record::FaultList whole = inject::whole_tensors(base_, run.whole);
  const record::FaultList& faults = run.whole.empty() ? run.faults.bits() : whole;
  inject::Patch patch = inject::make_patch(base_, faults);
  const bool several = base_.files().several();
  std::set<std::size_t> parts =
      several ? inject::altered_parts(patch, base_.files()) : std::set<std::size_t>();
  drop_foreign_copies();
  copy_parts(parts);
  inject::write_patch(*file_, patch, false);
  if (shared_) file_->sync();
  patch_ = std::move(patch);
  parts_ = std::move(parts);
  note_written(parts_);
  return altered_tensors(faults);
}

void PrivateCopy::restore() {
  std::set<std::size_t> altered;  // and written to by nothing else in the run
  for (const std::size_t part : parts_) {
    if (is_as_written(part)) altered.insert(part);
  }
  inject::write_patch(*file_, patch_, true);
  if (shared_) file_->sync();
  note_written(altered);
  drop_foreign_copies();
  patch_ = {};
  parts_ = {};
}

/// A copy that something else wrote to would be loaded by every later run.
void PrivateCopy::drop_foreign_copies() {
  std::set<std::size_t> foreign;
  for (const auto& [part, stamp] : copies_) {
    if (!is_as_written(part)) foreign.insert(part);
  }
  link_parts(foreign);
}

bool PrivateCopy::is_as_written(std::size_t part) const {
  const auto copy = copies_.find(part);
  return copy != copies_.end() && FileStamp::of(file_->files().path_of(part)) == copy->second;
}

void PrivateCopy::note_written(const std::set<std::size_t>& parts) {
  for (const std::size_t part : parts) {
    if (const auto now = FileStamp::of(file_->files().path_of(part))) copies_.insert_or_assign(part, *now);
  }
}

void PrivateCopy::copy_parts(const std::set<std::size_t>& parts) {
  std::set<std::size_t> missing;
  for (const std::size_t part : parts) {
    if (!is_as_written(part)) missing.insert(part);
  }
  if (missing.empty()) return;
  file_.emplace(base_.files().in(path_), O_RDWR);  // closes them
  for (const std::size_t part : missing) {
    const auto place = file_->files().path_of(part);
    std::filesystem::remove(place);
    copy_file_bytes(base_.files().path_of(part), place);
  }
}

void PrivateCopy::link_parts(const std::set<std::size_t>& parts) {
  if (parts.empty()) return;
  file_.emplace(base_.files().in(path_), O_RDWR);  // closes them
  for (const std::size_t part : parts) {
    const auto place = file_->files().path_of(part);
    std::filesystem::remove(place);
    std::filesystem::create_symlink(std::filesystem::canonical(base_.files().path_of(part)), place);
    copies_.erase(part);
  }
}

void PrivateCopy::renew() {
  file_.reset();
  patch_ = {};
  parts_ = {};
  copies_ = {};
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  if (base_.files().several()) {
    ckpt::link_folder(base_.files().root, path_);
  } else {
    copy_file_bytes(base_.path(), path_);
  }
  file_.emplace(base_.files().in(path_), O_RDWR);
  if (shared_) file_->sync();
}

std::vector<std::string> altered_tensors(const record::FaultList& faults) {
  std::vector<bool> altered(faults.sites.size());
  for (const record::ElementChange& change : faults.changes) {
    if (change.old_pattern != change.new_pattern) altered[change.site] = true;
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < altered.size(); ++i) {
    const record::FaultSite& site = faults.sites[i];
    if (altered[i] && !record::names_byte(site.plane, site.structure)) names.insert(site.tensor);
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> PrivateCopy::primaries(const std::vector<std::string>& tensors) const {
  std::set<std::string> names;
  for (const std::string& name : tensors) {
    const ckpt::TensorInfo* const tensor = base_.find(name);
    names.insert(tensor == nullptr || tensor->alias_of.empty() ? name : tensor->alias_of);
  }
  return {names.begin(), names.end()};
}

}  // namespace bitrift::campaign
