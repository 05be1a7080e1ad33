#include "h5/memory_file.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <hdf5.h>

#include "core/number/number_format.h"
#include "h5/number_type.h"

namespace bitrift::h5 {
namespace {

using detail::done;
using detail::made;

void* allocate(std::size_t size, H5FD_file_image_op_t, void* image) noexcept {
  static_cast<MemoryImage*>(image)->size = size;
  return std::calloc(1, size);
}

void* grow(void* memory, std::size_t size, H5FD_file_image_op_t, void* image) noexcept {
  std::size_t& known = static_cast<MemoryImage*>(image)->size;
  auto* const grown = static_cast<std::uint8_t*>(std::realloc(memory, size));
  if (grown == nullptr) return nullptr;
  // Gaps between structures must be zero, or equal checkpoints would differ.
  if (size > known) std::memset(grown + known, 0, size - known);
  known = size;
  return grown;
}

void* copy(void* to, const void* from, std::size_t size, H5FD_file_image_op_t, void*) noexcept {
  return std::memcpy(to, from, size);
}

herr_t release(void* memory, H5FD_file_image_op_t operation, void* image) noexcept {
  auto& kept = *static_cast<MemoryImage*>(image);
  if (operation == H5FD_FILE_IMAGE_OP_FILE_CLOSE) {
    kept.last.reset(static_cast<std::uint8_t*>(memory));
  } else {
    std::free(memory);
  }
  return 0;
}

void* share(void* image) noexcept { return image; }
herr_t unshare(void*) noexcept { return 0; }

Handle create_in_memory(MemoryImage& image, std::size_t room, std::size_t step) {
  const std::string where = "new HDF5 file";
  const Handle access = made(H5Pcreate(H5P_FILE_ACCESS), where);
  H5FD_file_image_callbacks_t callbacks{allocate, copy, grow, release, share, unshare, &image};
  done(H5Pset_fapl_core(access.get(), step, false), where);
  done(H5Pset_file_image_callbacks(access.get(), &callbacks), where);
  done(H5Pset_meta_block_size(access.get(), room), where);
  // Structures of HDF5 1.8 are a third smaller than older ones, and most have checksums.
  done(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_LATEST), where);
  const Handle creation = made(H5Pcreate(H5P_FILE_CREATE), where);
  done(H5Pset_obj_track_times(creation.get(), false), where);
  // The core driver opens no file of this name.
  return made(H5Fcreate("bitrift-in-memory.h5", H5F_ACC_TRUNC, creation.get(), access.get()), where);
}

/// The end of the file according to its superblock (HDF5 file format, section II.A).
std::uint64_t end_of_file(std::span<const std::uint8_t> head) {
  const std::size_t version_at = 8;
  if (head.size() < 64) fail(ErrorCode::internal, "HDF5 gave no image of the new file");
  const std::size_t at = head[version_at] < 2 ? 40 : 28;
  return load_pattern(number_format("uint64").value(), head.data() + at);
}

}  // namespace

MemoryFile::MemoryFile(std::size_t room, std::size_t step) : file_(create_in_memory(image_, room, step)) {}

void MemoryFile::add_attribute(const std::string& name, const std::string& text) {
  const std::string where = "attribute " + name;
  const Handle type = made(H5Tcopy(H5T_C_S1), where);
  done(H5Tset_size(type.get(), H5T_VARIABLE), where);
  done(H5Tset_cset(type.get(), H5T_CSET_UTF8), where);
  const Handle space = made(H5Screate(H5S_SCALAR), where);
  const Handle attribute =
      made(H5Acreate2(id(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), where);
  const char* const pointer = text.c_str();
  done(H5Awrite(attribute.get(), type.get(), &pointer), where);
}

void MemoryFile::add_groups_of(const std::string& path) {
  for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string group = path.substr(0, slash);
    if (!groups_.insert(group).second) continue;
    const Handle creation = made(H5Pcreate(H5P_GROUP_CREATE), group);
    done(H5Pset_obj_track_times(creation.get(), false), group);
    made(H5Gcreate2(id(), group.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), group);
  }
}

Handle MemoryFile::add_dataset(const NewDataset& dataset, const Handle& creation) {
  const std::string& where = dataset.path;
  add_groups_of(where);
  const std::vector<hsize_t> dims(dataset.shape.begin(), dataset.shape.end());
  const Handle space =
      made(dims.empty() ? H5Screate(H5S_SCALAR)
                        : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
           where);
  const Handle type = dataset.format ? make_type(*dataset.format) : make_string_type(dataset.string_bytes);
  return made(
      H5Dcreate2(id(), where.c_str(), type.get(), space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
      where);
}

MemoryFile::Bytes MemoryFile::close() {
  done(H5Fclose(file_.release()), "new HDF5 file");
  const std::span<const std::uint8_t> all(image_.last.get(), image_.last ? image_.size : 0);
  const std::uint64_t end = end_of_file(all);
  // The driver's memory grows in steps: bytes after the file's end are padding.
  return {end, all.first(std::min<std::uint64_t>(end, all.size()))};
}

}  // namespace bitrift::h5
