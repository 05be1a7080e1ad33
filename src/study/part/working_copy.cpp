#include "study/part/working_copy.h"

#include <system_error>
#include <utility>

#include <fcntl.h>

#include "core/digest.h"
#include "core/error.h"
#include "core/file.h"
#include "study/part/saved_files.h"

namespace bitrift::study {

WorkingCopy::WorkingCopy(std::filesystem::path original, std::filesystem::path path)
    : original_(std::move(original)), path_(std::move(path)) {
  renew();
}

WorkingCopy::~WorkingCopy() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path WorkingCopy::file(const std::string& name) const {
  return name.empty() ? path_ : path_ / name;
}

void WorkingCopy::flip(const BitFault& fault) const {
  const std::filesystem::path name = file(fault.file);
  const FileDescriptor fd = open_file(name, O_RDWR);
  unsigned char byte = 0;
  read_at(fd, &byte, 1, fault.byte, name);
  byte = static_cast<unsigned char>(byte ^ (1U << static_cast<unsigned>(fault.bit)));
  write_at(fd, &byte, 1, fault.byte, name);
}

void WorkingCopy::zero(const std::vector<BitExtent>& extents) const {
  for (const BitExtent& extent : extents) {
    const std::filesystem::path name = file(extent.file);
    const std::vector<char> zeros(extent.end - extent.first, '\0');
    write_at(open_file(name, O_RDWR), zeros.data(), zeros.size(), extent.first, name);
  }
}

void WorkingCopy::renew() const { copy_saved(original_, path_); }

std::string digest_of_files(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return digest_file(path);
  Digest all;
  for (const auto& [name, file] : saved_files(path)) all.add(name).add("\n").add(digest_file(file)).add("\n");
  return all.hex();
}

}  // namespace bitrift::study
