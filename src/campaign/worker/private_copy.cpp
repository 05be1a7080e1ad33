#include "campaign/worker/private_copy.h"

#include <set>
#include <system_error>
#include <utility>

#include <fcntl.h>

#include "inject/write/write_patch.h"

namespace bitrift::campaign {

PrivateCopy::PrivateCopy(const ckpt::Reader& base, std::filesystem::path path, bool shared)
    : base_(base), path_(std::move(path)), shared_(shared) {
  renew();
}

PrivateCopy::~PrivateCopy() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

void PrivateCopy::alter(const std::vector<record::AppliedFault>& faults) {
  inject::Patch patch = inject::make_patch(base_, faults);
  inject::write_patch(fd_, path_, patch, false);
  if (shared_) sync_file(fd_, path_);
  patch_ = std::move(patch);
}

void PrivateCopy::restore() {
  inject::write_patch(fd_, path_, patch_, true);
  if (shared_) sync_file(fd_, path_);
  patch_ = {};
}

void PrivateCopy::renew() {
  fd_.close();
  patch_ = {};
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
  copy_file_bytes(base_.path(), path_);
  fd_ = open_file(path_, O_RDWR);
  if (shared_) sync_file(fd_, path_);
}

std::vector<std::string> altered_tensors(const std::vector<record::AppliedFault>& faults) {
  std::set<std::string> names;
  for (const record::AppliedFault& fault : faults) {
    const bool value = !record::names_byte(fault.plane, fault.structure);
    if (value && fault.old_pattern != fault.new_pattern) names.insert(fault.tensor);
  }
  return {names.begin(), names.end()};
}

}  // namespace bitrift::campaign
