#include "h5/create.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

#include <hdf5.h>

#include "core/number/shape.h"
#include "h5/library.h"
#include "h5/number_type.h"

namespace bitrift::h5 {
namespace {

/// The memory that HDF5's `core` driver writes to. HDF5 grows it through grow() and drops it through
/// release() when the file is closed: that is the moment when all structures are in it.
struct Image {
  std::size_t size = 0;
  std::vector<std::uint8_t> final_bytes;
};

void* allocate(std::size_t size, H5FD_file_image_op_t, void* image) noexcept {
  static_cast<Image*>(image)->size = size;
  return std::calloc(1, size);
}

void* grow(void* memory, std::size_t size, H5FD_file_image_op_t, void* image) noexcept {
  std::size_t& known = static_cast<Image*>(image)->size;
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
  auto& kept = *static_cast<Image*>(image);
  herr_t result = 0;
  if (operation == H5FD_FILE_IMAGE_OP_FILE_CLOSE) {
    try {
      const auto* const bytes = static_cast<const std::uint8_t*>(memory);
      kept.final_bytes.assign(bytes, bytes + kept.size);
    } catch (const std::exception&) {
      result = -1;
    }
  }
  std::free(memory);
  return result;
}

void* share(void* image) noexcept { return image; }
herr_t unshare(void*) noexcept { return 0; }

Handle made(std::int64_t id, const std::string& where) { return own(id, where, ErrorCode::bad_input); }
void done(std::int64_t result, const std::string& where) { check(result, where, ErrorCode::bad_input); }

/// Room for all structures in one piece, so that they come before the elements: a symbol table node takes 328
/// bytes, a B-tree node 544, an object header 272 to 512, a group's heap a few times its names.
std::size_t head_room(const std::vector<NewDataset>& datasets,
                      const std::map<std::string, std::string>& attributes) {
  std::size_t bytes = 16384;
  for (const NewDataset& dataset : datasets) bytes += 1024 + 4 * dataset.path.size();
  for (const auto& [name, text] : attributes) bytes += 512 + name.size() + text.size() + text.size() / 4;
  return bytes;
}

Handle create_in_memory(Image& image, std::size_t room) {
  const std::string where = "new HDF5 file";
  const Handle access = made(H5Pcreate(H5P_FILE_ACCESS), where);
  H5FD_file_image_callbacks_t callbacks{allocate, copy, grow, release, share, unshare, &image};
  done(H5Pset_fapl_core(access.get(), 1U << 12, false), where);
  done(H5Pset_file_image_callbacks(access.get(), &callbacks), where);
  done(H5Pset_meta_block_size(access.get(), room), where);
  done(H5Pset_libver_bounds(access.get(), H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST), where);
  const Handle creation = made(H5Pcreate(H5P_FILE_CREATE), where);
  done(H5Pset_obj_track_times(creation.get(), false), where);
  // The core driver opens no file of this name.
  return made(H5Fcreate("bitrift-in-memory.h5", H5F_ACC_TRUNC, creation.get(), access.get()), where);
}

void create_groups(const Handle& file, const std::string& path, std::set<std::string>& known) {
  for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string group = path.substr(0, slash);
    if (!known.insert(group).second) continue;
    const Handle creation = made(H5Pcreate(H5P_GROUP_CREATE), group);
    done(H5Pset_obj_track_times(creation.get(), false), group);
    made(H5Gcreate2(file.get(), group.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT), group);
  }
}

std::uint64_t create_dataset(const Handle& file, const NewDataset& dataset) {
  const std::string& where = dataset.path;
  const std::vector<hsize_t> dims(dataset.shape.begin(), dataset.shape.end());
  const Handle space =
      made(dims.empty() ? H5Screate(H5S_SCALAR)
                        : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
           where);
  const Handle type = dataset.format ? make_type(*dataset.format) : make_string_type(dataset.string_bytes);
  const Handle creation = made(H5Pcreate(H5P_DATASET_CREATE), where);
  done(H5Pset_layout(creation.get(), H5D_CONTIGUOUS), where);
  done(H5Pset_alloc_time(creation.get(), H5D_ALLOC_TIME_EARLY), where);
  done(H5Pset_fill_time(creation.get(), H5D_FILL_TIME_NEVER), where);
  done(H5Pset_obj_track_times(creation.get(), false), where);
  const Handle id = made(H5Dcreate2(file.get(), dataset.path.c_str(), type.get(), space.get(), H5P_DEFAULT,
                                    creation.get(), H5P_DEFAULT),
                         where);
  if (dataset.bytes() == 0) return 0;
  const haddr_t offset = H5Dget_offset(id.get());
  if (offset == HADDR_UNDEF) fail(ErrorCode::internal, "{}: HDF5 allocated no space", where);
  return offset;
}

void create_attribute(const Handle& file, const std::string& name, const std::string& text) {
  const std::string where = "attribute " + name;
  const Handle type = made(H5Tcopy(H5T_C_S1), where);
  done(H5Tset_size(type.get(), H5T_VARIABLE), where);
  done(H5Tset_cset(type.get(), H5T_CSET_UTF8), where);
  const Handle space = made(H5Screate(H5S_SCALAR), where);
  const Handle attribute =
      made(H5Acreate2(file.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), where);
  const char* const pointer = text.c_str();
  done(H5Awrite(attribute.get(), type.get(), &pointer), where);
}

/// Where the file ends, as its superblock says (HDF5 file format, section II.A).
std::uint64_t end_of_file(const std::vector<std::uint8_t>& head) {
  const std::size_t version_at = 8;
  if (head.size() < 64) fail(ErrorCode::internal, "HDF5 gave no image of the new file");
  const std::size_t at = head[version_at] < 2 ? 40 : 28;
  return load_pattern(number_format("uint64").value(), head.data() + at);
}

}  // namespace

std::uint64_t NewDataset::bytes() const noexcept {
  return element_count(shape) * (format ? format->bytes : string_bytes);
}

Blueprint lay_out(const std::vector<NewDataset>& datasets,
                  const std::map<std::string, std::string>& attributes) {
  const Scope scope;
  Image image;
  Blueprint blueprint;
  {
    Handle file = create_in_memory(image, head_room(datasets, attributes));
    for (const auto& [name, text] : attributes) create_attribute(file, name, text);
    std::set<std::string> groups;
    for (const NewDataset& dataset : datasets) create_groups(file, dataset.path, groups);
    for (const NewDataset& dataset : datasets) blueprint.offsets.push_back(create_dataset(file, dataset));
    done(H5Fclose(file.release()), "new HDF5 file");
  }
  blueprint.head = std::move(image.final_bytes);
  blueprint.file_bytes = end_of_file(blueprint.head);
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    if (blueprint.offsets[i] + datasets[i].bytes() > blueprint.file_bytes) {
      fail(ErrorCode::internal, "{}: lies behind the end of the new file", datasets[i].path);
    }
  }
  // The driver's memory grows in steps: what lies behind the file's end is padding.
  if (blueprint.head.size() > blueprint.file_bytes) blueprint.head.resize(blueprint.file_bytes);
  return blueprint;
}

}  // namespace bitrift::h5
